package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func (d *desk) waiters() (string, error) {
	if _, err := d.client.CreateBucket(d.ctx, &s3.CreateBucketInput{Bucket: d.bucket}); err != nil {
		return "", err
	}
	there := s3.NewBucketExistsWaiter(d.client)
	if err := there.Wait(d.ctx, &s3.HeadBucketInput{Bucket: d.bucket}, 20*time.Second); err != nil {
		return "", err
	}
	if _, err := d.put("waited for", []byte("x")); err != nil {
		return "", err
	}
	head := &s3.HeadObjectInput{Bucket: d.bucket, Key: aws.String("waited for")}
	if err := s3.NewObjectExistsWaiter(d.client).Wait(d.ctx, head, 20*time.Second); err != nil {
		return "", err
	}
	delete := &s3.DeleteObjectInput{Bucket: d.bucket, Key: head.Key}
	if _, err := d.client.DeleteObject(d.ctx, delete); err != nil {
		return "", err
	}
	if err := s3.NewObjectNotExistsWaiter(d.client).Wait(d.ctx, head, 20*time.Second); err != nil {
		return "", err
	}
	return "made, an object waited for, and for its end", nil
}

func (d *desk) put(key string, body []byte) (*s3.PutObjectOutput, error) {
	return d.client.PutObject(d.ctx, &s3.PutObjectInput{Bucket: d.bucket, Key: &key, Body: bytes.NewReader(body)})
}

func (d *desk) get(key string) ([]byte, error) {
	answer, err := d.client.GetObject(d.ctx, &s3.GetObjectInput{Bucket: d.bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return io.ReadAll(answer.Body)
}

// expect reads an object and compares it.
func (d *desk) expect(key string, expected []byte) error {
	found, err := d.get(key)
	if err != nil {
		return err
	}
	return same(found, expected, key)
}

func (d *desk) checksums() (string, error) {
	body := noise(300_000, 1)
	first, err := d.put("by default", body)
	if err != nil {
		return "", err
	}
	if aws.ToString(first.ChecksumCRC32) == "" {
		return "", errors.New("the answer to a put has no CRC32")
	}
	for _, algorithm := range types.ChecksumAlgorithm("").Values() {
		switch algorithm {
		case types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c, types.ChecksumAlgorithmSha1,
			types.ChecksumAlgorithmSha256, types.ChecksumAlgorithmCrc64nvme:
		default:
			continue
		}
		key := "by " + string(algorithm)
		input := &s3.PutObjectInput{Bucket: d.bucket, Key: &key, Body: bytes.NewReader(body),
			ChecksumAlgorithm: algorithm}
		if _, err := d.client.PutObject(d.ctx, input); err != nil {
			return "", fmt.Errorf("%s: %w", key, err)
		}
		if err := d.expect(key, body); err != nil {
			return "", err
		}
	}
	wrong := &s3.PutObjectInput{Bucket: d.bucket, Key: aws.String("wrong"), Body: bytes.NewReader(body),
		ChecksumCRC32: aws.String("AAAAAA==")}
	if _, err = d.client.PutObject(d.ctx, wrong); refused(err, "BadDigest") != nil {
		return "", refused(err, "BadDigest")
	}
	attributes := &s3.GetObjectAttributesInput{Bucket: d.bucket, Key: aws.String("by SHA256"),
		ObjectAttributes: []types.ObjectAttributes{"Checksum", "ObjectSize", "ETag"}}
	told, err := d.client.GetObjectAttributes(d.ctx, attributes)
	if err != nil {
		return "", err
	}
	if told.Checksum == nil || told.Checksum.ChecksumSHA256 == nil || *told.ObjectSize != int64(len(body)) {
		return "", fmt.Errorf("attributes: %+v", told)
	}
	return "CRC32 by default, CRC32C, SHA-1, SHA-256, CRC64NVME; a wrong one refused", nil
}

func (d *desk) conditions() (string, error) {
	once := &s3.PutObjectInput{Bucket: d.bucket, Key: aws.String("once"), IfNoneMatch: aws.String("*")}
	once.Body = strings.NewReader("first")
	first, err := d.client.PutObject(d.ctx, once)
	if err != nil {
		return "", err
	}
	once.Body = strings.NewReader("second")
	if _, err = d.client.PutObject(d.ctx, once); refused(err, "PreconditionFailed") != nil {
		return "", refused(err, "PreconditionFailed")
	}
	swap := &s3.PutObjectInput{Bucket: d.bucket, Key: once.Key, IfMatch: first.ETag, Body: strings.NewReader("third")}
	if _, err = d.client.PutObject(d.ctx, swap); err != nil {
		return "", err
	}
	swap.Body = strings.NewReader("fourth")
	if _, err = d.client.PutObject(d.ctx, swap); refused(err, "PreconditionFailed") != nil {
		return "", refused(err, "PreconditionFailed")
	}
	read := &s3.GetObjectInput{Bucket: d.bucket, Key: once.Key, IfMatch: first.ETag}
	if _, err = d.client.GetObject(d.ctx, read); refused(err, "PreconditionFailed") != nil {
		return "", refused(err, "PreconditionFailed")
	}
	return "puts and reads", d.expect("once", []byte("third"))
}

func (d *desk) presigned() (string, error) {
	signer, body := s3.NewPresignClient(d.client), noise(40_000, 2)
	input := &s3.PutObjectInput{Bucket: d.bucket, Key: aws.String("signed & sent"), ContentType: aws.String("a/b")}
	address, err := signer.PresignPutObject(d.ctx, input)
	if err != nil {
		return "", err
	}
	if err := send(address.Method, address.URL, address.SignedHeader, body, nil); err != nil {
		return "", err
	}
	get, err := signer.PresignGetObject(d.ctx, &s3.GetObjectInput{Bucket: d.bucket, Key: input.Key})
	if err != nil {
		return "", err
	}
	if err := send(get.Method, get.URL, get.SignedHeader, nil, body); err != nil {
		return "", err
	}
	other := strings.Replace(get.URL, "%26", "%27", 1)
	if err := send(get.Method, other, get.SignedHeader, nil, body); err == nil {
		return "", errors.New("an address is taken that was signed for another key")
	}
	return "put and read, another key refused", d.expect("signed & sent", body)
}

// send makes a request without the SDK, and compares what it answers if that is not nil.
func send(method, address string, headers http.Header, body, expected []byte) error {
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range headers {
		if name != "Content-Length" {
			request.Header[name] = values
		}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	found, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", method, answer.Status, found)
	}
	if expected != nil {
		return same(found, expected, address)
	}
	return nil
}

func (d *desk) refusals() (string, error) {
	_, err := d.get("not there")
	var absent *types.NoSuchKey
	if !errors.As(err, &absent) {
		return "", fmt.Errorf("an absent key: %w", orNone(err))
	}
	_, err = d.client.HeadObject(d.ctx, &s3.HeadObjectInput{Bucket: d.bucket, Key: aws.String("not there")})
	var unknown *types.NotFound
	if !errors.As(err, &unknown) {
		return "", fmt.Errorf("the head of an absent key: %w", orNone(err))
	}
	_, err = d.client.ListObjectsV2(d.ctx, &s3.ListObjectsV2Input{Bucket: aws.String("no-such-bucket")})
	var none *types.NoSuchBucket
	if !errors.As(err, &none) {
		return "", fmt.Errorf("an absent bucket: %w", orNone(err))
	}
	if _, err = d.client.DeleteBucket(d.ctx, &s3.DeleteBucketInput{Bucket: d.bucket}); err == nil {
		return "", errors.New("a full bucket is deleted")
	}
	return "absent keys and buckets are told by types, a full bucket stays", refused(err, "BucketNotEmpty")
}
