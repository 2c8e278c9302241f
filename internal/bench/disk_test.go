package bench

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly/internal/clock"
)

func TestMeasuringTheDiskSyncsAndLeavesNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := MeasureDisk(t.Context(), dir, 0, clock.System())
	if err != nil {
		t.Fatal(err)
	}
	if d.Dir != dir || d.P50 <= 0 || d.P99 < d.P50 || d.Max < d.P99 || d.Rate <= 0 {
		t.Errorf("measured %+v", d)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

func TestAnAddedDelayIsPartOfEachSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, err := MeasureDisk(t.Context(), dir, 2*time.Millisecond, clock.System())
		if err != nil {
			t.Fatal(err)
		}
		// In the synctest bubble the disk itself takes no time.
		if d.P50 < 2000 || d.P50 > 2040 || d.Rate != 500 {
			t.Errorf("p50 %g µs, %g commits/s; want 2000 and 500", d.P50, d.Rate)
		}
	})
}

func TestMeasuringTheDiskFailsInAMissingFolder(t *testing.T) {
	t.Parallel()
	_, err := MeasureDisk(t.Context(), filepath.Join(t.TempDir(), "none"), 0, clock.System())
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

func TestMeasuringTheDiskEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := MeasureDisk(ctx, dir, time.Hour, clock.System()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}
