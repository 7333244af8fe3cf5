// Command sdk uses the gateway through the AWS SDK for Go, with what it does by default: checksums of all it sends,
// and of all it reads.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

// desk has the client and the bucket that all parts use.
type desk struct {
	ctx    context.Context
	client *s3.Client
	bucket *string
	failed int
}

// part runs one part and prints a line: `ok NAME: WORDS` or `FAILED NAME: ERROR`.
func (d *desk) part(name string, body func() (string, error)) {
	start := time.Now()
	words, err := body()
	if err != nil {
		d.failed++
		fmt.Printf("FAILED %s: %s\n", name, strings.Split(err.Error(), "\n")[0])
		return
	}
	fmt.Printf("ok %s: %s (%.1f s)\n", name, words, time.Since(start).Seconds())
}

// noise returns bytes of which no part is like another, the same for a seed each time.
func noise(count int, seed int64) []byte {
	made := make([]byte, count)
	rand.New(rand.NewSource(seed)).Read(made)
	return made
}

// same compares bytes that were read with those that were written.
func same(found, expected []byte, of string) error {
	if !bytes.Equal(found, expected) {
		return fmt.Errorf("%s: %d bytes that differ from the %d expected", of, len(found), len(expected))
	}
	return nil
}

// refused returns nil if err is an error of S3 with this code.
func refused(err error, code string) error {
	var answer smithy.APIError
	if errors.As(err, &answer) && answer.ErrorCode() == code {
		return nil
	}
	return fmt.Errorf("not refused by %s: %w", code, orNone(err))
}

func orNone(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func main() {
	ctx := context.Background()
	loaded, err := config.LoadDefaultConfig(ctx, config.WithBaseEndpoint(os.Getenv("SDK_ENDPOINT")))
	if err != nil {
		fmt.Println("FAILED configuration:", err)
		os.Exit(1)
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) { o.UsePathStyle = true })
	d := &desk{ctx: ctx, client: client, bucket: aws.String(os.Getenv("SDK_BUCKET"))}
	d.part("bucket and waiters", d.waiters)
	d.part("checksums", d.checksums)
	d.part("conditions", d.conditions)
	d.part("pages", d.pages)
	d.part("versions", d.versions)
	d.part("addresses that are signed", d.presigned)
	d.part("transfer manager", d.transfers)
	d.part("uploads", d.uploads)
	d.part("refusals", d.refusals)
	if d.failed > 0 {
		os.Exit(1)
	}
}
