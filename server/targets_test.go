package server

import (
	"context"
	"sync"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/webhook/target"
)

// withTargets is a model that stores targets.
type withTargets struct {
	*model.Engine
	mu      sync.Mutex
	records map[[2]string]target.Record
}

func (s *withTargets) PutTarget(_ context.Context, r target.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := [2]string{r.Namespace, r.Name}
	if s.records[key].Version != r.Version {
		return duly.ErrConflict
	}
	r.Version++
	s.records[key] = r
	return nil
}

func (s *withTargets) FindTarget(_ context.Context, namespace, name string) (target.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.records[[2]string{namespace, name}]
	if !ok {
		return r, duly.ErrNotFound
	}
	return r, nil
}

func (s *withTargets) Targets(context.Context, string, duly.PageParams) ([]target.Record, string, error) {
	return nil, "", nil
}
func (s *withTargets) DeleteTarget(context.Context, string, string) error { return nil }

// PushQueues looks at every queue of the default namespace.
func (s *withTargets) PushQueues(ctx context.Context, p duly.PageParams) (all []duly.QueueRef, next string, err error) {
	names, err := s.Queues(ctx, "default", p)
	for _, name := range names.Names {
		q := duly.QueueRef{Namespace: "default", Name: name}
		if c, _ := s.Config(ctx, q); c.Delivery == duly.DeliverPush {
			all = append(all, q)
		}
	}
	return all, names.Next, err
}
