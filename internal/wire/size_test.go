package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// full returns a job with all fields at their maximum.
func full(body []byte) duly.Job {
	when := time.Date(9999, 12, 31, 23, 59, 59, 999_000_000, time.UTC)
	odd := 11*time.Hour + 59*time.Minute + 59*time.Second + 999*time.Millisecond
	headers := map[string]string{}
	for i := range 64 {
		headers[fmt.Sprint("x-", i)] = strings.Repeat("\x7f\"", 8)
	}
	return duly.Job{
		ID: strings.Repeat("i", 128), Queue: strings.Repeat("q", 255), Body: body, Headers: headers, Due: when,
		Priority: -1000,
		Tries:    65535, MaxStalls: 65535, Backoff: duly.Backoff("exp:" + strings.Repeat("1", 60)), TTL: odd,
		Lease: odd, Retain: odd,
		OrderKey: strings.Repeat("\"", 128),
		Merge:    duly.Merge{Key: strings.Repeat("\\", 128), Mode: duly.MergeReplace, MaxWait: odd},
		Callback: "https://example.com/" + strings.Repeat("c", 200),
	}
}

// The estimated size of an answer is at least its size, and not much larger.
func TestEstimatedSizeOfAnswer(t *testing.T) {
	t.Parallel()
	when := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for name, body := range map[string][]byte{
		"nothing": nil, "text": []byte(strings.Repeat("täxt ", 20_000)),
		"JSON":    []byte(strings.Repeat(`{"a":"b\n"}`, 9000)),
		"escapes": bytes.Repeat([]byte{1}, 50_000), "tabs": []byte(strings.Repeat("\t\r\n\"\\\x7f\b\f/", 9000)),
		"binary": bytes.Repeat([]byte{0xff, 0}, 50_000), "short": []byte("x"), "NUL": make([]byte, 100_001),
	} {
		for _, n := range []int{0, 1, 10} {
			var deliveries []duly.Delivery
			var page duly.ListPage
			for range n {
				j := full(body)
				deliveries = append(deliveries,
					duly.Delivery{Job: j, Receipt: duly.Receipt(strings.Repeat("r", 300)), Attempt: 1 << 31,
						Failures: 1 << 31,
						Stalls:   1 << 31, LeaseEnd: when, Now: when, PushedAt: when, ExpiresAt: when})
				page.Jobs = append(page.Jobs,
					duly.JobInfo{Job: j, State: duly.StateBlocked, Size: 1 << 31, Attempt: 1 << 31, Failures: 1 << 31,
						Stalls:   1 << 31,
						PushedAt: when, ExpiresAt: when, LeaseEnd: when, FinishedAt: when,
						LastError: strings.Repeat("\x01é", 100), Result: body})
			}

			page.Next = strings.Repeat("n", 300)
			for answer, sizes := range map[string][2]int{
				"deliveries": {len(DeliveriesForm.Append(nil, deliveries)), SizeOfDeliveries(deliveries)},
				"jobs":       {len(AppendJobs(nil, page, true)), SizeOfJobs(page, true)},
				"a list":     {len(AppendJobs(nil, page, false)), SizeOfJobs(page, false)},
			} {
				is, guess := sizes[0], sizes[1]
				if guess < is || guess > short && guess > is+(n+1)*(4<<10) {
					t.Errorf("%d %s of %s have %d bytes, %d were estimated", n, answer, name, is, guess)
				}
			}
		}
	}
}
