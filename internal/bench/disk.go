package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

// Disk is the cost of one commit on a machine, without any engine: pages are appended to a file and
// synced, one after another. An engine with a higher rate commits for several callers together. A
// durable call can't be faster than one commit.
type Disk struct {
	Dir string  `json:"dir"`
	P50 float64 `json:"fsync_p50_us"`
	P99 float64 `json:"fsync_p99_us"`
	Max float64 `json:"fsync_max_us"`
	// Commits per second if each commit writes a page and syncs it, one after another.
	Rate float64 `json:"commits_per_second"`
}

const (
	diskPage  = 4096
	diskSyncs = 500
	diskTime  = 2 * time.Second
)

// MeasureDisk writes and syncs up to 500 pages of 4 KiB to a new file in dir, for at most two
// seconds, and removes the file. delay is added to each sync, to simulate a slow disk.
func MeasureDisk(ctx context.Context, dir string, delay time.Duration, clk clock.Clock) (_ *Disk, err error) {
	f, err := os.CreateTemp(dir, "duly-bench-*.sync")
	if err != nil {
		return nil, fmt.Errorf("bench: can't measure the disk: %w", err)
	}
	defer func() {
		f.Close()
		if rerr := os.Remove(f.Name()); err == nil && rerr != nil {
			err = rerr
		}
	}()

	var syncs Histogram
	page := make([]byte, diskPage)
	start := clk.Mono()
	for syncs.Count() < diskSyncs && clk.Mono()-start < diskTime && ctx.Err() == nil {
		if _, err := f.Write(page); err != nil {
			return nil, fmt.Errorf("bench: can't measure the disk: %w", err)
		}

		// Only the sync is timed, because the write goes to memory.
		before := clk.Mono()
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("bench: can't measure the disk: %w", err)
		}
		if delay > 0 {
			pause(ctx, clk, delay)
		}
		syncs.Record(clk.Mono() - before)
	}

	return &Disk{
		Dir: dir, P50: micros(syncs.Percentile(50)), P99: micros(syncs.Percentile(99)), Max: micros(syncs.Max()),
		Rate: perSecond(syncs.Count(), clk.Mono()-start),
	}, ctx.Err()
}

// pause waits until d has passed or ctx ends.
func pause(ctx context.Context, clk clock.Clock, d time.Duration) {
	t := clk.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// perSecond returns the rate of n in a time, or 0 for no time.
func perSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
