package sqliteengine_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/sqliteengine"
	"github.com/dulymq/duly/test/sqlitetest"
)

// suite opens an engine on an empty store for every test.
func suite(cfg sqliteengine.Config) enginetest.Suite {
	return suiteOf(cfg, func(*sqliteengine.Engine) {})
}

// suiteOf is like suite but with a function that prepares each engine.
func suiteOf(cfg sqliteengine.Config, change func(*sqliteengine.Engine)) enginetest.Suite {
	return enginetest.Suite{Bubble: true, New: func(t testing.TB, o enginetest.Options) *enginetest.Harness {
		c, cfg, log := clock.NewFake(), cfg, new(logtest.Log)
		cfg.Path, cfg.MaxBody, cfg.MaxQueues = sqlitetest.Store(t), o.MaxBody, o.MaxQueues
		cfg.Clock, cfg.Manual, cfg.Logger = c, !o.Own, log.Logger()
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
		return &enginetest.Harness{Engine: e, Maintainer: e, Registry: e, Backuper: e, Clock: c, Logged: log.CountLines}
	}}
}

// The suite ends no process, so it need not wait for the disk.
func TestConformance(t *testing.T) {
	suite(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal}).Run(t)
}

// With the default, which waits for the disk, every call has the same results.
func TestConformanceWithFullSync(t *testing.T) {
	s := suite(sqliteengine.Config{})
	if !proctest.Long() {
		s.Subjects = []string{"Push", "Settle", "TopicPublish"}
	}
	s.Run(t)
}

// The model's run ends no process, so it need not wait for the disk.
func TestModel(t *testing.T) {
	t.Parallel()
	suite(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal}).Model(t)
}

// The engine and the model agree on random scripts with topics and groups.
func TestTopicModel(t *testing.T) {
	t.Parallel()
	s := suite(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal})
	s.Sequences = 60
	s.TopicModel(t)
}

// The engine and the model agree on random scripts with schedules.
func TestScheduleModel(t *testing.T) {
	t.Parallel()
	s := suite(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal})
	s.Sequences = 60
	s.ScheduleModel(t)
}

// C12.82: a restored store accepts no receipt from before the restore, even while the
// message is leased again.
func TestReceiptsFromBeforeRestoreAreRejected(t *testing.T) {
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
			Path: path, Clock: h.Clock.(duly.Clock), Manual: true, Logger: slog.New(slog.DiscardHandler),
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

// gathering returns the suite for an engine as in a busy server: its writer gathers callers before a commit, and
// pages are read row by row. It keeps the same contract.
func gathering() enginetest.Suite {
	return suiteOf(sqliteengine.Config{Synchronous: sqliteengine.SyncNormal, Gather: true},
		(*sqliteengine.Engine).ReadRowByRow)
}

// The short form has the subjects of concurrent callers and of pages.
func TestConformanceGathering(t *testing.T) {
	secondRun(t)
	s := gathering()
	if !proctest.Long() {
		s.Subjects = []string{"Push", "Batch", "Reserve", "Settle", "Wait", "OrderKey", "Merge", "List", "Inspect", "Stats",
			"Maintenance", "Concurrency", "TopicPublish", "TopicReserve", "TopicRead", "TopicStats", "ScheduleFire",
			"ScheduleRead"}
	}
	s.Run(t)
}

func TestModelGathering(t *testing.T) {
	t.Parallel()
	secondRun(t)
	s := gathering()
	s.Sequences = 30
	s.Model(t)
}

// secondRun skips the second run of a suite in short tests; TestGatherAnswersAllCallers is
// its short form.
func secondRun(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs without -short")
	}
}
