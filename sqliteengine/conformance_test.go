package sqliteengine_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine"
)

// suite makes an engine on a file of its own for every test.
func suite(cfg sqliteengine.Config) enginetest.Suite {
	return suiteOf(cfg, func(*sqliteengine.Engine) {})
}

// suiteOf is suite for engines that are changed before they are used.
func suiteOf(cfg sqliteengine.Config, change func(*sqliteengine.Engine)) enginetest.Suite {
	return enginetest.Suite{Bubble: true, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		c, cfg := clock.NewFake(), cfg
		cfg.Path, cfg.MaxBody, cfg.MaxQueues = filepath.Join(t.TempDir(), "duly.db"), o.MaxBody, o.MaxQueues
		cfg.Clock, cfg.Manual, cfg.Logger = c, !o.Own, slog.New(slog.NewTextHandler(io.Discard, nil))
		e, err := sqliteengine.Open(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		change(e)
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return &enginetest.Harness{Engine: e, Maintainer: e, Registry: e, Backuper: e, Clock: c}
	}}
}

func TestConformance(t *testing.T) { suite(sqliteengine.Config{}).Run(t) }

// No process ends in a model's run, so nothing is shown by waiting for the disk.
func TestModel(t *testing.T) {
	suite(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal}).Model(t)
}

// What the random scripts do with topics and groups, the model does as well.
func TestTopicModel(t *testing.T) {
	s := suite(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal})
	s.Sequences = 100
	s.TopicModel(t)
}

// C12.82: no receipt of before a restored backup is accepted by what is restored, not
// even while the message runs again.
func TestReceiptsOfBeforeARestoredBackup(t *testing.T) {
	var backup bytes.Buffer
	suite(sqliteengine.Config{}).StaleReceipts(t, func(t testing.TB, h *enginetest.Harness) {
		backup.Reset()
		if err := h.Backuper.Backup(t.Context(), &backup); err != nil {
			t.Fatal(err)
		}
	}, func(t testing.TB, h *enginetest.Harness) *enginetest.Harness {
		path := filepath.Join(t.TempDir(), "duly.db")
		if err := os.WriteFile(path, backup.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}

		e, err := sqliteengine.Open(t.Context(), sqliteengine.Config{
			Path: path, Clock: h.Clock.(clock.Clock), Manual: true, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}

		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
		return &enginetest.Harness{Engine: e, Maintainer: e, Registry: e, Backuper: e, Clock: h.Clock}
	})
}

// gathering is an engine as in a busy server: its writer lets callers join the
// next commit, and pages are read row by row. It keeps the same contract.
func gathering() enginetest.Suite {
	return suiteOf(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal, Gather: true}, (*sqliteengine.Engine).ReadRowByRow)
}

func TestConformanceGathering(t *testing.T) {
	secondRun(t)
	gathering().Run(t)
}

func TestModelGathering(t *testing.T) {
	secondRun(t)
	if !proctest.Long() && os.Getenv("DULY_MODEL_SEQUENCES") == "" {
		t.Setenv("DULY_MODEL_SEQUENCES", "60")
	}
	gathering().Model(t)
}

// secondRun leaves the second run of a suite to the full tests;
// TestGatheringAnswersEverybody is its short form.
func secondRun(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs without -short")
	}
}
