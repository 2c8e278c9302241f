package conformance_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/enginetest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/sqliteengine"
	"github.com/dulymq/duly/test/conformance"
	"github.com/dulymq/duly/test/sqlitetest"
)

func openModel(_ testing.TB, c duly.Clock, o enginetest.Options) conformance.Owner {
	return model.New(model.Config{Clock: c, MaxBody: o.MaxBody, MaxQueues: o.MaxQueues, OneShard: true, Manual: !o.Own})
}

func openSQLite(t testing.TB, c duly.Clock, o enginetest.Options) conformance.Owner {
	t.Helper()
	// The suite ends no process, so it need not wait for the disk.
	e, err := sqliteengine.Open(context.Background(), sqliteengine.Config{
		Path: sqlitetest.Store(t), MaxBody: o.MaxBody, MaxQueues: o.MaxQueues, Clock: c, Manual: !o.Own,
		Logger: slog.New(slog.DiscardHandler), Synchronous: sqliteengine.SyncNormal,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
