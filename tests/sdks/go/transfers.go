package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const partBytes = 5 << 20

func (d *desk) transfers() (string, error) {
	manager := transfermanager.New(d.client, func(o *transfermanager.Options) { o.PartSizeBytes = partBytes })
	body := noise(33_000_000, 3)
	key := aws.String("transferred")
	upload := &transfermanager.UploadObjectInput{Bucket: d.bucket, Key: key, Body: bytes.NewReader(body)}
	if _, err := manager.UploadObject(d.ctx, upload); err != nil {
		return "", err
	}
	if err := d.expect(*key, body); err != nil {
		return "", err
	}
	// A stream has no length that is known before.
	upload.Body, upload.Key = io.MultiReader(bytes.NewReader(body)), aws.String("streamed")
	if _, err := manager.UploadObject(d.ctx, upload); err != nil {
		return "", fmt.Errorf("a stream: %w", err)
	}
	found, err := manager.GetObject(d.ctx, &transfermanager.GetObjectInput{Bucket: d.bucket, Key: upload.Key})
	if err != nil {
		return "", err
	}
	read, err := io.ReadAll(found.Body)
	if err != nil {
		return "", err
	}
	if err := same(read, body, "a stream"); err != nil {
		return "", err
	}
	head, err := d.client.HeadObject(d.ctx, &s3.HeadObjectInput{Bucket: d.bucket, Key: key,
		ChecksumMode: types.ChecksumModeEnabled, PartNumber: aws.Int32(1)})
	if err != nil {
		return "", err
	}
	if parts := aws.ToInt32(head.PartsCount); int(parts) != (len(body)+partBytes-1)/partBytes {
		return "", fmt.Errorf("%d parts", parts)
	}
	return fmt.Sprintf("%d bytes in %d parts, a stream, both read", len(body), *head.PartsCount), nil
}

func (d *desk) uploads() (string, error) {
	key, body := aws.String("in parts"), noise(2*partBytes+100, 4)
	begun, err := d.client.CreateMultipartUpload(d.ctx, &s3.CreateMultipartUploadInput{Bucket: d.bucket, Key: key,
		ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme, ChecksumType: types.ChecksumTypeFullObject})
	if err != nil {
		return "", err
	}
	var parts []types.CompletedPart
	for number := range int32(3) {
		end := min(int(number+1)*partBytes, len(body))
		part := &s3.UploadPartInput{Bucket: d.bucket, Key: key, UploadId: begun.UploadId,
			PartNumber: aws.Int32(number + 1), Body: bytes.NewReader(body[int(number)*partBytes : end]),
			ChecksumAlgorithm: types.ChecksumAlgorithmCrc64nvme}
		sent, err := d.client.UploadPart(d.ctx, part)
		if err != nil {
			return "", err
		}
		parts = append(parts, types.CompletedPart{ETag: sent.ETag, PartNumber: part.PartNumber,
			ChecksumCRC64NVME: sent.ChecksumCRC64NVME})
	}
	listed, err := d.client.ListParts(d.ctx, &s3.ListPartsInput{Bucket: d.bucket, Key: key, UploadId: begun.UploadId})
	if err != nil {
		return "", err
	}
	if len(listed.Parts) != 3 {
		return "", fmt.Errorf("%d parts are listed", len(listed.Parts))
	}
	complete := &s3.CompleteMultipartUploadInput{Bucket: d.bucket, Key: key, UploadId: begun.UploadId,
		ChecksumType:    types.ChecksumTypeFullObject,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}}
	if _, err := d.client.CompleteMultipartUpload(d.ctx, complete); err != nil {
		return "", err
	}
	if err := d.expect(*key, body); err != nil {
		return "", err
	}
	given, err := d.client.CreateMultipartUpload(d.ctx, &s3.CreateMultipartUploadInput{Bucket: d.bucket, Key: key})
	if err != nil {
		return "", err
	}
	abort := &s3.AbortMultipartUploadInput{Bucket: d.bucket, Key: key, UploadId: given.UploadId}
	if _, err := d.client.AbortMultipartUpload(d.ctx, abort); err != nil {
		return "", err
	}
	late := &s3.UploadPartInput{Bucket: d.bucket, Key: key, UploadId: given.UploadId, PartNumber: aws.Int32(1),
		Body: bytes.NewReader(body[:10])}
	if _, err = d.client.UploadPart(d.ctx, late); refused(err, "NoSuchUpload") != nil {
		return "", refused(err, "NoSuchUpload")
	}
	left, err := d.client.ListMultipartUploads(d.ctx, &s3.ListMultipartUploadsInput{Bucket: d.bucket})
	if err != nil {
		return "", err
	}
	if len(left.Uploads) != 0 {
		return "", fmt.Errorf("%d uploads are left", len(left.Uploads))
	}
	return "three parts by CRC64NVME of the whole, an abort, a part behind it refused", nil
}
