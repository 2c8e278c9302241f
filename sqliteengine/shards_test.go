package sqliteengine

import (
	"context"
	"errors"
	"testing"

	"github.com/dulymq/duly"
)

// C10.2, C11.31: this engine refuses a queue of more than one shard, and changes nothing.
func TestMoreThanOneShardIsUnsupported(t *testing.T) {
	t.Parallel()
	r := newDamagedStore(t)
	r.open()
	ctx := context.Background()
	for _, q := range []duly.QueueRef{damagedQueue, duly.Q("new")} {
		if err := r.e.Configure(ctx, q, duly.QueueConfig{Shards: 2, MaxJobs: 5}); !errors.Is(err, duly.ErrUnsupported) {
			t.Errorf("two shards for %s were answered %v", q, err)
		}
	}

	if cfg, err := r.e.Config(ctx, damagedQueue); err != nil || cfg.Shards != 1 || cfg.MaxJobs != duly.None {
		t.Errorf("the queue's configuration is %+v, %v", cfg, err)
	}
	if page, err := r.e.Queues(ctx, "", duly.PageParams{}); err != nil || len(page.Names) != 1 {
		t.Errorf("there are the queues %v, %v", page.Names, err)
	}
	if err := r.e.Configure(ctx, damagedQueue, duly.QueueConfig{Shards: 1}); err != nil {
		t.Errorf("one shard was answered %v", err)
	}
}

// C11.25: reads run concurrently with the writer, and each read sees one commit, even in the middle
// of a transaction.
func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	t.Parallel()
	r := newDamagedStore(t)
	r.open()
	ctx := context.Background()
	inside, leave, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)

	go func() {
		done <- r.e.change(ctx, func(t *tx) error {
			j, err := t.queue(damagedQueue.Normal()).findJob(t, "plain")
			if err == nil {
				err = j.deleteCounted(t)
			}
			close(inside)
			<-leave
			return err
		})
	}()

	<-inside
	if _, err := r.e.Get(ctx, damagedQueue, "plain"); err != nil {
		t.Errorf("a read in the middle of a transaction: %v", err)
	}

	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := r.e.Get(ctx, damagedQueue, "plain"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("a read behind its commit: %v", err)
	}
}
