package target

import (
	"context"
	"errors"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/server/webhook/guard"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// mostConflicts is how often a change is made again that others have overtaken.
const mostConflicts = 10

// OpenKeys reads a file with the keys that seal secrets, one in a line, the one that seals
// first. If there is no file, it makes one with a new key, which its owner alone can read.
func OpenKeys(path string) (*seal.Ring, error) { return seal.Create(path) }

// Store keeps targets and secrets. It is safe for concurrent use.
type Store struct {
	records contract.Targeter
	ring    *seal.Ring
	guard   *guard.Guard
	clock   duly.Clock
}

// NewStore returns a store over the records of an engine. The clock is for tests; nil: the
// system's.
func NewStore(records contract.Targeter, ring *seal.Ring, g *guard.Guard, c duly.Clock) *Store {
	if c == nil {
		c = clock.System()
	}
	return &Store{records: records, ring: ring, guard: g, clock: c}
}

// Get returns a target; [duly.ErrNotFound].
func (s *Store) Get(ctx context.Context, namespace, name string) (Target, error) {
	r, version, err := s.read(ctx, namespace, name)
	if err != nil {
		return Target{}, err
	}
	return r.shown(namespace, name, version), nil
}

// List returns a page of targets, by name.
func (s *Store) List(ctx context.Context, namespace string, p duly.PageParams) (targets []Target, next string, err error) {
	page, err := s.records.Targets(ctx, namespace, p)
	if err != nil {
		return nil, "", err
	}
	for _, stored := range page.Targets {
		r, err := parse(stored.Settings)
		if err != nil {
			return nil, "", err
		}
		targets = append(targets, r.shown(namespace, stored.Name, stored.Version))
	}
	return targets, page.Next, nil
}

// Put creates a target, or replaces its settings. Its secret stays, unless keys is not
// nil: then these become its own secret, and no other signs any more.
func (s *Store) Put(ctx context.Context, namespace, name string, settings Settings, keys *sign.Pair) error {
	if err := settings.Validate(s.guard); err != nil {
		return err
	}
	return s.change(ctx, namespace, name, true, func(r *record) error {
		r.put(s.ring, namespace, name, settings)
		if keys == nil {
			return nil
		}
		set, err := r.set(namespace, name).Rotate(s.ring, *keys, s.clock.Now(), 0)
		if err == nil {
			r.keep(set)
		}
		return err
	})
}

// Enable enables or disables a target; [duly.ErrNotFound]. It may be repeated.
func (s *Store) Enable(ctx context.Context, namespace, name string, enabled bool) error {
	return s.change(ctx, namespace, name, false, func(r *record) error {
		r.Disabled = !enabled
		return nil
	})
}

// Rotate adds a secret and returns it. The one before it signs until the overlap is over.
// keys nil draws new keys. name "" is the secret of the namespace.
func (s *Store) Rotate(ctx context.Context, namespace, name string, keys *sign.Pair, overlap time.Duration) (sign.Pair, error) {
	pair := sign.NewPair()
	if keys != nil {
		pair = *keys
	}
	err := s.change(ctx, namespace, name, name == "", func(r *record) error {
		set := r.set(namespace, name)
		if name != "" && len(r.Secrets) == 0 && overlap > 0 {
			// Its receivers know the secret of the namespace, so that is the old one.
			old, err := s.Secret(ctx, namespace, "")
			if err != nil {
				return err
			}
			set = sign.NewSet(s.ring, namespace, name, old)
		}
		set, err := set.Rotate(s.ring, pair, s.clock.Now(), overlap)
		if err == nil {
			r.keep(set)
		}
		return err
	})
	if err != nil {
		return sign.Pair{}, err
	}
	return pair, nil
}

// Secret returns the newest secret of a target: its own, or that of the namespace. name ""
// is the secret of the namespace, which is created if there is none.
func (s *Store) Secret(ctx context.Context, namespace, name string) (sign.Pair, error) {
	if name != "" {
		r, _, err := s.read(ctx, namespace, name)
		if err != nil {
			return sign.Pair{}, err
		}
		if len(r.Secrets) > 0 {
			return r.set(namespace, name).Open(s.ring)
		}
	}
	r, _, err := s.ofNamespace(ctx, namespace)
	if err != nil {
		return sign.Pair{}, err
	}
	return r.set(namespace, "").Open(s.ring)
}

// Delete removes a target; [duly.ErrNotFound]. Its jobs wait until there is one again.
func (s *Store) Delete(ctx context.Context, namespace, name string) error {
	return s.records.DeleteTarget(ctx, namespace, name)
}

// ofNamespace returns the record with the secret of a namespace, and creates it.
func (s *Store) ofNamespace(ctx context.Context, namespace string) (*record, int64, error) {
	for try := 0; ; try++ {
		r, version, err := s.read(ctx, namespace, "")
		if err == nil && len(r.Secrets) > 0 || err != nil && !errors.Is(err, duly.ErrNotFound) {
			return r, version, err
		}

		created := &record{}
		created.keep(sign.NewSet(s.ring, namespace, "", sign.NewPair()))
		err = s.records.PutTarget(ctx, contract.Target{Namespace: namespace, Version: version, Settings: created.text()})
		switch {
		case err == nil:
			return created, version + 1, nil
		case !errors.Is(err, duly.ErrConflict) || try == mostConflicts:
			return nil, 0, err
		}
	}
}

// read reads a record.
func (s *Store) read(ctx context.Context, namespace, name string) (*record, int64, error) {
	stored, err := s.records.FindTarget(ctx, namespace, name)
	if err != nil {
		return nil, 0, err
	}
	r, err := parse(stored.Settings)
	return r, stored.Version, err
}

// change changes a record, and again if another server was faster.
func (s *Store) change(ctx context.Context, namespace, name string, create bool, do func(*record) error) error {
	for try := 0; ; try++ {
		r, version, err := s.read(ctx, namespace, name)
		if create && errors.Is(err, duly.ErrNotFound) {
			r, err = &record{}, nil
		}
		if err == nil {
			err = do(r)
		}
		if err != nil {
			return err
		}
		err = s.records.PutTarget(ctx, contract.Target{Namespace: namespace, Name: name, Version: version, Settings: r.text()})
		if !errors.Is(err, duly.ErrConflict) || try == mostConflicts {
			return err
		}
	}
}
