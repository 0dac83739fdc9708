# A lake in a bucket of yours: who may do what in it, and the DynamoDB table for its coordination, if you want one.
# `penstock infra terraform DIR` writes these files; policies.tf is generated and says what each kind of process needs.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "bucket" {
  description = "The bucket's name. It must exist."
  type        = string
}

variable "prefix" {
  description = "Where the lake lies in the bucket, as in s3://bucket/prefix; empty: it fills the bucket."
  type        = string
  default     = ""

  validation {
    condition     = length(regexall("[*?$]", var.prefix)) == 0
    error_message = "A policy takes '*', '?' and '$' for more than themselves."
  }
}

variable "table" {
  description = "The DynamoDB table for cells, made here, as in dynamodb://table; empty: cells lie in the bucket."
  type        = string
  default     = ""
}

variable "cells" {
  description = "The lake's part of the table, as in dynamodb://table/cells; empty: all of it."
  type        = string
  default     = ""
}

variable "kms_key_arn" {
  description = "The key that the bucket's objects are encrypted with, if it is one of your own in KMS."
  type        = string
  default     = ""
}

variable "manage_bucket_policy" {
  description = "Whether the output bucket_policy becomes the bucket's policy, in place of any that it has."
  type        = bool
  default     = false
}

variable "manage_versioning" {
  description = "Whether the bucket keeps what is deleted and replaced for noncurrent_days; sets its lifecycle rules, in place of any that it has."
  type        = bool
  default     = false
}

variable "noncurrent_days" {
  description = "How long deleted and replaced objects can be brought back, with manage_versioning."
  type        = number
  default     = 14

  validation {
    condition     = var.noncurrent_days >= 1
    error_message = "A day is the least that S3 takes."
  }
}

variable "name" {
  description = "What the policies' names begin with."
  type        = string
  default     = "penstock"
}

locals {
  bucket = "arn:aws:s3:::${var.bucket}"
  prefix = var.prefix == "" ? "" : "${trim(var.prefix, "/")}/"
  lake   = "${local.bucket}/${local.prefix}"
  cells  = var.cells == "" ? "" : "${trim(var.cells, "/")}/"
  table  = one(aws_dynamodb_table.cells[*].arn)
}

# One item a cell, billed by request: the same table as `penstock infra table create` makes.
resource "aws_dynamodb_table" "cells" {
  count                       = var.table == "" ? 0 : 1
  name                        = var.table
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "pk"
  deletion_protection_enabled = true

  attribute {
    name = "pk"
    type = "S"
  }

  point_in_time_recovery {
    enabled = true
  }
}

# What no role may do, whatever else it may: talk without TLS, and replace an entry or a checkpoint of a log (docs/security.md).
data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "TlsOnly"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [local.bucket, "${local.bucket}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }

  statement {
    sid       = "LogsOnlyGrow"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["${local.lake}topics/*/log/*.parquet", "${local.lake}topics/*/log/checkpoints/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["true"]
    }

    condition {
      test     = "Bool"
      variable = "s3:ObjectCreationOperation"
      values   = ["true"]
    }
  }
}

resource "aws_s3_bucket_policy" "lake" {
  count  = var.manage_bucket_policy ? 1 : 0
  bucket = var.bucket
  policy = data.aws_iam_policy_document.bucket.json
}

resource "aws_s3_bucket_versioning" "lake" {
  count  = var.manage_versioning ? 1 : 0
  bucket = var.bucket

  versioning_configuration {
    status = "Enabled"
  }
}

# Without it every cell's former states would be kept, and paid for, for ever.
resource "aws_s3_bucket_lifecycle_configuration" "lake" {
  count      = var.manage_versioning ? 1 : 0
  bucket     = var.bucket
  depends_on = [aws_s3_bucket_versioning.lake]

  rule {
    id     = "${var.name}-noncurrent"
    status = "Enabled"

    filter {
      prefix = local.prefix
    }

    noncurrent_version_expiration {
      noncurrent_days = var.noncurrent_days
    }

    expiration {
      expired_object_delete_marker = true
    }
  }
}

output "bucket_policy" {
  description = "Denies requests without TLS, and puts that would replace what a log has; a bucket has one policy, so merge it with yours."
  value       = data.aws_iam_policy_document.bucket.json
}

output "policy_arns" {
  description = "Of the policies; attach to a process's IAM role those of what it is."
  value = {
    reader       = aws_iam_policy.reader.arn
    producer     = aws_iam_policy.producer.arn
    transactions = aws_iam_policy.transactions.arn
    consumer     = aws_iam_policy.consumer.arn
    capture      = aws_iam_policy.capture.arn
    gateway      = aws_iam_policy.gateway.arn
    sync         = aws_iam_policy.sync.arn
    maintenance  = aws_iam_policy.maintenance.arn
  }
}
