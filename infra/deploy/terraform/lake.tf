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
}

output "policy_arns" {
  description = "Of the policies; attach to a process's IAM role those of what it is."
  value = {
    reader       = aws_iam_policy.reader.arn
    producer     = aws_iam_policy.producer.arn
    transactions = aws_iam_policy.transactions.arn
    consumer     = aws_iam_policy.consumer.arn
    capture      = aws_iam_policy.capture.arn
    sync         = aws_iam_policy.sync.arn
    maintenance  = aws_iam_policy.maintenance.arn
  }
}
