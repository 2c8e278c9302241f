package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

func TestTheZeroConfigIsValid(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesEachInvalidField(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		field string
		cfg   Config
	}{
		{"repeat", Config{Repeat: -1}},
		{"repeat", Config{Repeat: 1001}},
		{"jobs", Config{Load: Load{Jobs: 100_000_001}}},
		{"batch", Config{Load: Load{Batch: duly.MaxBatch + 1}}},
		{"batch", Config{Load: Load{Batch: 1000, Body: 8389}}},
		{"callers", Config{Load: Load{Callers: -1}}},
		{"goroutines", Config{Load: Load{Goroutines: 10_001}}},
		{"concurrency", Config{Load: Load{Concurrency: 10_001}}},
		{"body", Config{Load: Load{Body: 64<<20 + 1, Batch: 1}}},
		{"rate", Config{Load: Load{Rate: 100_001}}},
		{"rate", Config{Phases: []Phase{TickLateness}, Load: Load{Rate: 10_001}}},
		{"time", Config{Load: Load{Time: time.Millisecond}}},
		{"time", Config{Load: Load{Time: 2 * time.Hour}}},
		{"backlog_ready", Config{Backlog: Backlog{Ready: -1}}},
		{"backlog_delayed", Config{Backlog: Backlog{Delayed: 100_000_001}}},
		{"batch", Config{Batches: []int{10, duly.MaxBatch + 1}}},
		{"batch", Config{Batches: []int{-1}}},
		{"job", Config{Kinds: []Kind{Plain, "bare"}}},
		{"phases", Config{Phases: []Phase{"pull"}}},
		{"phases", Config{Phases: []Phase{NativePush}}},
		{"phases", Config{Phases: []Phase{Memory}}},
		{"phases", Config{Phases: []Phase{Idle}}},
		{"queues", Config{Load: Load{Queues: 101}}},
		{"shards", Config{Shards: 6}},
		{"shards", Config{Shards: 512}},
		{"phases", Config{Phases: []Phase{Spread}}},
		{"against", Config{Against: Target{Open: newEngine().open}}},
		{"compare", Config{Backlog: Backlog{Compare: true}}},
	} {
		var e *duly.Error
		if err := tt.cfg.Validate(); !errors.As(err, &e) || e.Code != duly.CodeInvalid || len(e.Fields) != 1 ||
			e.Fields[0].Field != tt.field {
			t.Errorf("%s: got %v", tt.field, err)
		}
	}

	var e *duly.Error
	err := Config{Repeat: -1, Load: Load{Rate: -1}}.Validate()
	if !errors.As(err, &e) || len(e.Fields) != 2 {
		t.Errorf("two bad fields: got %v", err)
	}
}

func TestEveryBatchSizeIsCheckedOnce(t *testing.T) {
	t.Parallel()
	var e *duly.Error
	err := Config{Load: Load{Batch: 2000}, Batches: []int{2000, 0, 2000}}.Validate()
	if !errors.As(err, &e) || len(e.Fields) != 2 {
		t.Errorf("two bad sizes: got %v", err)
	}
	cfg := Config{Load: Load{Body: 16 << 20, Batch: 1}, Batches: []int{1, 50}, Phases: []Phase{Push}}
	if err := cfg.Validate(); err != nil {
		t.Errorf("a size that no phase uses: got %v", err)
	}
}

func TestALargeBodyIsValidInABatchOfOne(t *testing.T) {
	t.Parallel()
	if err := (Config{Load: Load{Body: 16 << 20, Batch: 1}}).Validate(); err != nil {
		t.Error(err)
	}
}
