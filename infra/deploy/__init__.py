"""The parts for running Penstock for real: who may do what in the bucket, Terraform, a container image, Kubernetes and alerts."""
