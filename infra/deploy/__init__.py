"""Running Penstock for real: policies, Terraform, a container image, Kubernetes and alerts."""
