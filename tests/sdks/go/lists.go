package main

import (
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

const listed = 230

// together does work with the numbers up to count, eight at a time, and returns one of the errors.
func together(count int, work func(number int) error) error {
	var group sync.WaitGroup
	slots, failed := make(chan struct{}, 8), make(chan error, count)
	for number := range count {
		group.Add(1)
		slots <- struct{}{}
		go func() {
			defer group.Done()
			if err := work(number); err != nil {
				failed <- err
			}
			<-slots
		}()
	}
	group.Wait()
	close(failed)
	return <-failed
}

func listedKey(number int) string {
	return fmt.Sprintf("list/%d/a b+c=%%20é&%04d", number%7, number)
}

func (d *desk) pages() (string, error) {
	err := together(listed, func(number int) error {
		_, err := d.put(listedKey(number), []byte(listedKey(number)))
		return err
	})
	if err != nil {
		return "", err
	}
	keys, pages := map[string]bool{}, 0
	input := &s3.ListObjectsV2Input{Bucket: d.bucket, Prefix: aws.String("list/"), MaxKeys: aws.Int32(50)}
	for found := s3.NewListObjectsV2Paginator(d.client, input); found.HasMorePages(); pages++ {
		page, err := found.NextPage(d.ctx)
		if err != nil {
			return "", err
		}
		for _, object := range page.Contents {
			keys[*object.Key] = true
		}
	}
	for number := range listed {
		if !keys[listedKey(number)] {
			return "", fmt.Errorf("not listed: %s", listedKey(number))
		}
	}
	if len(keys) != listed || pages != 5 {
		return "", fmt.Errorf("%d keys in %d pages", len(keys), pages)
	}
	input = &s3.ListObjectsV2Input{Bucket: d.bucket, Prefix: input.Prefix, Delimiter: aws.String("/")}
	folders, err := d.client.ListObjectsV2(d.ctx, input)
	if err != nil {
		return "", err
	}
	if len(folders.CommonPrefixes) != 7 || len(folders.Contents) != 0 {
		return "", fmt.Errorf("%d folders and %d keys", len(folders.CommonPrefixes), len(folders.Contents))
	}
	var all []types.ObjectIdentifier
	for key := range keys {
		all = append(all, types.ObjectIdentifier{Key: aws.String(key)})
	}
	delete := &s3.DeleteObjectsInput{Bucket: d.bucket, Delete: &types.Delete{Objects: all}}
	deleted, err := d.client.DeleteObjects(d.ctx, delete)
	if err != nil {
		return "", err
	}
	if len(deleted.Deleted) != listed || len(deleted.Errors) != 0 {
		return "", fmt.Errorf("%d deleted, %d errors", len(deleted.Deleted), len(deleted.Errors))
	}
	return fmt.Sprintf("%d keys in %d pages, 7 folders, all deleted at once", listed, pages), nil
}

func (d *desk) versions() (string, error) {
	own := aws.String(*d.bucket + "-versions")
	if _, err := d.client.CreateBucket(d.ctx, &s3.CreateBucketInput{Bucket: own}); err != nil {
		return "", err
	}
	enabled := &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}
	_, err := d.client.PutBucketVersioning(d.ctx, &s3.PutBucketVersioningInput{Bucket: own,
		VersioningConfiguration: enabled})
	if err != nil {
		return "", err
	}
	for number := range 12 {
		input := &s3.PutObjectInput{Bucket: own, Key: aws.String(fmt.Sprint("key ", number%3)),
			Body: strings.NewReader(fmt.Sprint(number))}
		if _, err := d.client.PutObject(d.ctx, input); err != nil {
			return "", err
		}
	}
	if _, err := d.client.DeleteObject(d.ctx, &s3.DeleteObjectInput{Bucket: own, Key: aws.String("key 1")}); err != nil {
		return "", err
	}
	found, markers := 0, 0
	list := &s3.ListObjectVersionsInput{Bucket: own, MaxKeys: aws.Int32(5)}
	for pages := s3.NewListObjectVersionsPaginator(d.client, list); pages.HasMorePages(); {
		page, err := pages.NextPage(d.ctx)
		if err != nil {
			return "", err
		}
		found, markers = found+len(page.Versions), markers+len(page.DeleteMarkers)
		for _, version := range page.Versions {
			_, err := d.client.DeleteObject(d.ctx, &s3.DeleteObjectInput{Bucket: own, Key: version.Key,
				VersionId: version.VersionId})
			if err != nil {
				return "", err
			}
		}
		for _, marker := range page.DeleteMarkers {
			_, err := d.client.DeleteObject(d.ctx, &s3.DeleteObjectInput{Bucket: own, Key: marker.Key,
				VersionId: marker.VersionId})
			if err != nil {
				return "", err
			}
		}
	}
	if found != 12 || markers != 1 {
		return "", fmt.Errorf("%d versions and %d markers", found, markers)
	}
	return "12 versions and a marker in pages of 5, deleted while they are listed", nil
}
