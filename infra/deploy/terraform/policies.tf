# Generated: change infra/deploy/access.py, then write this anew with `penstock infra terraform DIR`.
# One policy for each kind of process; a process that is two of them gets both.

data "aws_iam_policy_document" "reader" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}topics/*/table*/*",
      "${local.lake}timers/*",
      "${local.lake}coordination/timers/*",
      "${local.lake}waiting/*/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}topics/*/staged/jobs/*",
        "${local.prefix}topics/*/table*/*",
        "${local.prefix}timers/*",
        "${local.prefix}coordination/timers/*",
        "${local.prefix}waiting/*/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid     = "GetCells"
      actions = ["s3:GetObject"]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/groups/*",
        "${local.lake}coordination/queues/*/*",
        "${local.lake}coordination/members/*/*",
        "${local.lake}coordination/roles/*",
        "${local.lake}coordination/syncs/*",
        "${local.lake}coordination/producer-groups",
        "${local.lake}coordination/producers/*",
        "${local.lake}coordination/transactions/*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid       = "ListCells"
      actions   = ["s3:ListBucket"]
      resources = [local.bucket]

      condition {
        test     = "StringLike"
        variable = "s3:prefix"
        values = [
          "${local.prefix}coordination/workers/*",
          "${local.prefix}coordination/groups/*",
          "${local.prefix}coordination/queues/*/*",
          "${local.prefix}coordination/members/*/*",
          "${local.prefix}coordination/roles/*",
          "${local.prefix}coordination/syncs/*",
          "${local.prefix}coordination/producer-groups",
          "${local.prefix}coordination/producers/*",
          "${local.prefix}coordination/transactions/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "GetItems"
      actions   = ["dynamodb:GetItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}groups/*",
          "${local.cells}queues/*/*",
          "${local.cells}members/*/*",
          "${local.cells}roles/*",
          "${local.cells}syncs/*",
          "${local.cells}producer-groups",
          "${local.cells}producers/*",
          "${local.cells}transactions/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid = "Table"
      actions = [
        "dynamodb:DescribeTable",
        "dynamodb:Scan",
      ]
      resources = [local.table]
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid       = "Key"
      actions   = ["kms:Decrypt"]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "reader" {
  name   = "${var.name}-reader"
  policy = data.aws_iam_policy_document.reader.json
}

data "aws_iam_policy_document" "producer" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}topics/timer.*/staged/jobs/*",
      "${local.lake}topics/timer.*/table*/*",
      "${local.lake}timers/*",
      "${local.lake}coordination/timers/*",
    ]
  }

  statement {
    sid     = "Create"
    actions = ["s3:PutObject"]
    resources = [
      "${local.lake}topics/*/log/*.parquet",
      "${local.lake}topics/*/log/checkpoints/*",
    ]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["false"]
    }
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}coordination/timers/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}topics/*/staged/jobs/*/record",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}topics/timer.*/staged/jobs/*",
        "${local.prefix}topics/timer.*/table*/*",
        "${local.prefix}timers/*",
        "${local.prefix}coordination/timers/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "producer" {
  name   = "${var.name}-producer"
  policy = data.aws_iam_policy_document.producer.json
}

data "aws_iam_policy_document" "transactions" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/tx-*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Create"
    actions = ["s3:PutObject"]
    resources = [
      "${local.lake}topics/*/log/*.parquet",
      "${local.lake}topics/*/log/checkpoints/*",
    ]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["false"]
    }
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/tx-*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}topics/*/staged/jobs/tx-*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}topics/*/staged/jobs/tx-*",
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid     = "GetCells"
      actions = ["s3:GetObject"]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/roles/*/checks",
        "${local.lake}coordination/players/checks",
        "${local.lake}coordination/producer-groups",
        "${local.lake}coordination/producers/*",
        "${local.lake}coordination/transactions/*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid = "PutCells"
      actions = [
        "s3:PutObject",
        "s3:AbortMultipartUpload",
      ]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/roles/*/checks",
        "${local.lake}coordination/players/checks",
        "${local.lake}coordination/producer-groups",
        "${local.lake}coordination/producers/*",
        "${local.lake}coordination/transactions/*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid       = "ListCells"
      actions   = ["s3:ListBucket"]
      resources = [local.bucket]

      condition {
        test     = "StringLike"
        variable = "s3:prefix"
        values = [
          "${local.prefix}coordination/workers/*",
          "${local.prefix}coordination/roles/*/checks",
          "${local.prefix}coordination/players/checks",
          "${local.prefix}coordination/producer-groups",
          "${local.prefix}coordination/producers/*",
          "${local.prefix}coordination/transactions/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "GetItems"
      actions   = ["dynamodb:GetItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}roles/*/checks",
          "${local.cells}players/checks",
          "${local.cells}producer-groups",
          "${local.cells}producers/*",
          "${local.cells}transactions/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "Table"
      actions   = ["dynamodb:DescribeTable"]
      resources = [local.table]
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "PutItems"
      actions   = ["dynamodb:PutItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}roles/*/checks",
          "${local.cells}players/checks",
          "${local.cells}producer-groups",
          "${local.cells}producers/*",
          "${local.cells}transactions/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "DeleteItems"
      actions   = ["dynamodb:DeleteItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = ["${local.cells}workers/*"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "transactions" {
  name   = "${var.name}-transactions"
  policy = data.aws_iam_policy_document.transactions.json
}

data "aws_iam_policy_document" "consumer" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}topics/*/table*/*",
      "${local.lake}coordination/redrives/*/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}waiting/*/*/*",
    ]
  }

  statement {
    sid     = "Create"
    actions = ["s3:PutObject"]
    resources = [
      "${local.lake}topics/dlq.*/log/*.parquet",
      "${local.lake}topics/dlq.*/log/checkpoints/*",
      "${local.lake}waiting/*/*/*",
    ]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["false"]
    }
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}topics/dlq.*/staged/handed/*",
      "${local.lake}topics/dlq.*/staged/jobs/*",
      "${local.lake}topics/dlq.*/topic.json",
      "${local.lake}coordination/redrives/*/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}waiting/*/*/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}topics/*/staged/jobs/*",
        "${local.prefix}topics/*/table*/*",
        "${local.prefix}coordination/redrives/*/*",
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}waiting/*/*/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid     = "GetCells"
      actions = ["s3:GetObject"]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/groups/*",
        "${local.lake}coordination/queues/*/*",
        "${local.lake}coordination/members/*/*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid = "PutCells"
      actions = [
        "s3:PutObject",
        "s3:AbortMultipartUpload",
      ]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/groups/*",
        "${local.lake}coordination/queues/*/*",
        "${local.lake}coordination/members/*/*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid       = "ListCells"
      actions   = ["s3:ListBucket"]
      resources = [local.bucket]

      condition {
        test     = "StringLike"
        variable = "s3:prefix"
        values = [
          "${local.prefix}coordination/workers/*",
          "${local.prefix}coordination/groups/*",
          "${local.prefix}coordination/queues/*/*",
          "${local.prefix}coordination/members/*/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "GetItems"
      actions   = ["dynamodb:GetItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}groups/*",
          "${local.cells}queues/*/*",
          "${local.cells}members/*/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "Table"
      actions   = ["dynamodb:DescribeTable"]
      resources = [local.table]
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "PutItems"
      actions   = ["dynamodb:PutItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}groups/*",
          "${local.cells}queues/*/*",
          "${local.cells}members/*/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "DeleteItems"
      actions   = ["dynamodb:DeleteItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = ["${local.cells}workers/*"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "consumer" {
  name   = "${var.name}-consumer"
  policy = data.aws_iam_policy_document.consumer.json
}

data "aws_iam_policy_document" "gateway" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid     = "GetCells"
      actions = ["s3:GetObject"]
      resources = [
        "${local.lake}coordination/access",
        "${local.lake}coordination/gateways",
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/roles/*/timers",
        "${local.lake}coordination/players/timers",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid = "PutCells"
      actions = [
        "s3:PutObject",
        "s3:AbortMultipartUpload",
      ]
      resources = [
        "${local.lake}coordination/gateways",
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/roles/*/timers",
        "${local.lake}coordination/players/timers",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid       = "ListCells"
      actions   = ["s3:ListBucket"]
      resources = [local.bucket]

      condition {
        test     = "StringLike"
        variable = "s3:prefix"
        values = [
          "${local.prefix}coordination/access",
          "${local.prefix}coordination/gateways",
          "${local.prefix}coordination/workers/*",
          "${local.prefix}coordination/roles/*/timers",
          "${local.prefix}coordination/players/timers",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "GetItems"
      actions   = ["dynamodb:GetItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}access",
          "${local.cells}gateways",
          "${local.cells}workers/*",
          "${local.cells}roles/*/timers",
          "${local.cells}players/timers",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "Table"
      actions   = ["dynamodb:DescribeTable"]
      resources = [local.table]
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "PutItems"
      actions   = ["dynamodb:PutItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}gateways",
          "${local.cells}workers/*",
          "${local.cells}roles/*/timers",
          "${local.cells}players/timers",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "DeleteItems"
      actions   = ["dynamodb:DeleteItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = ["${local.cells}workers/*"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "gateway" {
  name   = "${var.name}-gateway"
  policy = data.aws_iam_policy_document.gateway.json
}

data "aws_iam_policy_document" "capture" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}captures/*/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Create"
    actions = ["s3:PutObject"]
    resources = [
      "${local.lake}topics/*/log/*.parquet",
      "${local.lake}topics/*/log/checkpoints/*",
    ]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["false"]
    }
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}topics/*/topic.json",
      "${local.lake}captures/*/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}captures/*/debezium/*/signals/*",
      "${local.lake}captures/*/mongodb/*/signals/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}captures/*/*",
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "capture" {
  name   = "${var.name}-capture"
  policy = data.aws_iam_policy_document.capture.json
}

data "aws_iam_policy_document" "sync" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}topics/*/table*/*",
      "${local.lake}captures/*/types/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}topics/*/staged/jobs/*",
        "${local.prefix}topics/*/table*/*",
        "${local.prefix}captures/*/types/*",
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid     = "GetCells"
      actions = ["s3:GetObject"]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/roles/*/sync-*",
        "${local.lake}coordination/syncs/*/*",
        "${local.lake}coordination/groups/sync-*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid = "PutCells"
      actions = [
        "s3:PutObject",
        "s3:AbortMultipartUpload",
      ]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/roles/*/sync-*",
        "${local.lake}coordination/syncs/*/*",
        "${local.lake}coordination/groups/sync-*",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid       = "ListCells"
      actions   = ["s3:ListBucket"]
      resources = [local.bucket]

      condition {
        test     = "StringLike"
        variable = "s3:prefix"
        values = [
          "${local.prefix}coordination/workers/*",
          "${local.prefix}coordination/roles/*/sync-*",
          "${local.prefix}coordination/syncs/*/*",
          "${local.prefix}coordination/groups/sync-*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "GetItems"
      actions   = ["dynamodb:GetItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}roles/*/sync-*",
          "${local.cells}syncs/*/*",
          "${local.cells}groups/sync-*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "Table"
      actions   = ["dynamodb:DescribeTable"]
      resources = [local.table]
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "PutItems"
      actions   = ["dynamodb:PutItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}roles/*/sync-*",
          "${local.cells}syncs/*/*",
          "${local.cells}groups/sync-*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "DeleteItems"
      actions   = ["dynamodb:DeleteItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values   = ["${local.cells}workers/*"]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "sync" {
  name   = "${var.name}-sync"
  policy = data.aws_iam_policy_document.sync.json
}

data "aws_iam_policy_document" "maintenance" {
  statement {
    sid     = "Get"
    actions = ["s3:GetObject"]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}topics/*/table*/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}timers/*",
      "${local.lake}coordination/timers/*",
      "${local.lake}waiting/*/*",
    ]
  }

  statement {
    sid     = "Create"
    actions = ["s3:PutObject"]
    resources = [
      "${local.lake}topics/*/log/*.parquet",
      "${local.lake}topics/*/log/checkpoints/*",
      "${local.lake}topics/*/table*/_delta_log/*.json",
      "${local.lake}topics/*/table*/_delta_log/*.checkpoint.parquet",
      "${local.lake}topics/*/table*/metadata/v*.metadata.json",
    ]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["false"]
    }
  }

  statement {
    sid = "Put"
    actions = [
      "s3:PutObject",
      "s3:AbortMultipartUpload",
    ]
    resources = [
      "${local.lake}topics/*/topic.json",
      "${local.lake}topics/*/log/floor",
      "${local.lake}topics/*/table*/queue=*",
      "${local.lake}topics/*/table*/metadata/*.avro",
      "${local.lake}topics/*/table*/_delta_log/_last_checkpoint",
      "${local.lake}topics/*/table*/metadata/version-hint.text",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}coordination/timers/*",
      "${local.lake}timers/*",
    ]
  }

  statement {
    sid     = "Delete"
    actions = ["s3:DeleteObject"]
    resources = [
      "${local.lake}topics/*/log/*",
      "${local.lake}topics/*/staged/handed/*",
      "${local.lake}topics/*/staged/jobs/*",
      "${local.lake}topics/*/table*/*",
      "${local.lake}.probe/*",
      "${local.lake}.clock/*",
      "${local.lake}.doctor/*",
      "${local.lake}timers/*",
      "${local.lake}waiting/*/*",
    ]
  }

  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [local.bucket]

    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values = [
        "${local.prefix}topics/*/topic.json",
        "${local.prefix}topics/*/log/*",
        "${local.prefix}topics/*/staged/handed/*",
        "${local.prefix}topics/*/staged/jobs/*",
        "${local.prefix}topics/*/table*/*",
        "${local.prefix}topics/*/",
        "${local.prefix}.probe/*",
        "${local.prefix}.clock/*",
        "${local.prefix}.doctor/*",
        "${local.prefix}timers/*",
        "${local.prefix}coordination/timers/*",
        "${local.prefix}waiting/*/*",
        "${local.prefix}topics/",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid     = "GetCells"
      actions = ["s3:GetObject"]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/groups/*",
        "${local.lake}coordination/queues/*/*",
        "${local.lake}coordination/members/*/*",
        "${local.lake}coordination/roles/*",
        "${local.lake}coordination/players/*",
        "${local.lake}coordination/producer-groups",
        "${local.lake}coordination/producers/*",
        "${local.lake}coordination/transactions/*",
        "${local.lake}coordination/access",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid = "PutCells"
      actions = [
        "s3:PutObject",
        "s3:AbortMultipartUpload",
      ]
      resources = [
        "${local.lake}coordination/workers/*",
        "${local.lake}coordination/groups/*",
        "${local.lake}coordination/queues/*/*",
        "${local.lake}coordination/roles/*",
        "${local.lake}coordination/players/*",
        "${local.lake}coordination/producer-groups",
        "${local.lake}coordination/producers/*",
        "${local.lake}coordination/transactions/*",
        "${local.lake}coordination/access",
      ]
    }
  }

  dynamic "statement" {
    for_each = var.table == "" ? [1] : []
    content {
      sid       = "ListCells"
      actions   = ["s3:ListBucket"]
      resources = [local.bucket]

      condition {
        test     = "StringLike"
        variable = "s3:prefix"
        values = [
          "${local.prefix}coordination/workers/*",
          "${local.prefix}coordination/groups/*",
          "${local.prefix}coordination/members/*/*",
          "${local.prefix}coordination/roles/*",
          "${local.prefix}coordination/players/*",
          "${local.prefix}coordination/producer-groups",
          "${local.prefix}coordination/producers/*",
          "${local.prefix}coordination/transactions/*",
          "${local.prefix}coordination/access",
          "${local.prefix}coordination/queues/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "GetItems"
      actions   = ["dynamodb:GetItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}groups/*",
          "${local.cells}queues/*/*",
          "${local.cells}members/*/*",
          "${local.cells}roles/*",
          "${local.cells}players/*",
          "${local.cells}producer-groups",
          "${local.cells}producers/*",
          "${local.cells}transactions/*",
          "${local.cells}access",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid = "Table"
      actions = [
        "dynamodb:DescribeTable",
        "dynamodb:Scan",
      ]
      resources = [local.table]
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "PutItems"
      actions   = ["dynamodb:PutItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}lake",
          "${local.cells}workers/*",
          "${local.cells}groups/*",
          "${local.cells}queues/*/*",
          "${local.cells}roles/*",
          "${local.cells}players/*",
          "${local.cells}producer-groups",
          "${local.cells}producers/*",
          "${local.cells}transactions/*",
          "${local.cells}access",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.table != "" ? [1] : []
    content {
      sid       = "DeleteItems"
      actions   = ["dynamodb:DeleteItem"]
      resources = [local.table]

      condition {
        test     = "ForAllValues:StringLike"
        variable = "dynamodb:LeadingKeys"
        values = [
          "${local.cells}workers/*",
          "${local.cells}transactions/*",
        ]
      }
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn != "" ? [1] : []
    content {
      sid = "Key"
      actions = [
        "kms:Decrypt",
        "kms:GenerateDataKey",
      ]
      resources = [var.kms_key_arn]
    }
  }
}

resource "aws_iam_policy" "maintenance" {
  name   = "${var.name}-maintenance"
  policy = data.aws_iam_policy_document.maintenance.json
}
