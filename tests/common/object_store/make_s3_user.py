"""Makes a user and a bucket on the S3 server at argv[1], while it still lets everybody in; prints the
user's key id and secret. From then on moto verifies the signature of every request."""
import json
import sys

import boto3

anybody = {"endpoint_url": sys.argv[1], "region_name": "us-east-1"}
iam = boto3.client("iam", aws_access_key_id="x", aws_secret_access_key="y", **anybody)
iam.create_user(UserName="muster")
key = iam.create_access_key(UserName="muster")["AccessKey"]
everything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
iam.put_user_policy(
    UserName="muster",
    PolicyName="all",
    PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [everything]}),
)
user = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
s3 = boto3.client("s3", **user, **anybody)
s3.create_bucket(Bucket="data")
print(key["AccessKeyId"], key["SecretAccessKey"])
