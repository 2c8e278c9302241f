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

// maxConflicts is the number of repetitions of a change after conflicts.
const maxConflicts = 10

// OpenKeys reads a file with the keys that seal secrets, one per line. The first key seals. If the
// file does not exist, OpenKeys creates it with a new key. Only the file's owner can read it.
func OpenKeys(path string) (*seal.Ring, error) { return seal.Create(path) }

// Store stores targets and secrets. It is safe for concurrent use.
type Store struct {
	records contract.Targeter
	ring    *seal.Ring
	guard   *guard.Guard
	clock   duly.Clock
}

// NewStore returns a store in the records of an engine. The clock is for tests; nil: the
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
	return r.target(namespace, name, version), nil
}

// List returns a page of targets, by name.
func (s *Store) List(
	ctx context.Context, namespace string, p duly.PageParams,
) (targets []Target, next string, err error) {
	page, err := s.records.Targets(ctx, namespace, p)
	if err != nil {
		return nil, "", err
	}
	for _, stored := range page.Targets {
		r, err := parse(stored.Settings)
		if err != nil {
			return nil, "", err
		}
		targets = append(targets, r.target(namespace, stored.Name, stored.Version))
	}
	return targets, page.Next, nil
}

// Put creates a target, or replaces its settings. keys, if not nil, replace its own secret
// without an overlap. Otherwise its secret stays.
func (s *Store) Put(ctx context.Context, namespace, name string, settings Settings, keys *sign.Pair) error {
	// The settings of the guard may change later. In that case the transport refuses the target.
	if err := settings.Validate(s.guard); err != nil {
		return err
	}
	return s.update(ctx, namespace, name, true, func(r *record) error {
		r.setSettings(s.ring, namespace, name, settings)
		if keys == nil {
			return nil
		}
		// The receiver already knows the secret that the caller brings, so there is no overlap.
		set, err := r.secretSet(namespace, name).Rotate(s.ring, *keys, s.clock.Now(), 0)
		if err == nil {
			r.setSecrets(set)
		}
		return err
	})
}

// Enable enables or disables a target. It returns [duly.ErrNotFound] if there is no such target. It
// can be repeated.
func (s *Store) Enable(ctx context.Context, namespace, name string, enabled bool) error {
	return s.update(ctx, namespace, name, false, func(r *record) error {
		r.Disabled = !enabled
		return nil
	})
}

// Rotate adds a secret and returns it. The previous secret signs until the end of the overlap. If
// no keys are given, Rotate creates new ones. If the name is empty, it rotates the secret of the
// namespace.
func (s *Store) Rotate(
	ctx context.Context, namespace, name string, keys *sign.Pair, overlap time.Duration,
) (sign.Pair, error) {
	// The pair is created before the update, so a repetition stores the same pair.
	pair := sign.NewPair()
	if keys != nil {
		pair = *keys
	}

	err := s.update(ctx, namespace, name, name == "", func(r *record) error {
		set := r.secretSet(namespace, name)
		if name != "" && len(r.Secrets) == 0 && overlap > 0 {
			// The receivers know the secret of the namespace, so it becomes the previous secret.
			old, err := s.Secret(ctx, namespace, "")
			if err != nil {
				return err
			}
			set = sign.NewSet(s.ring, namespace, name, old)
		}

		set, err := set.Rotate(s.ring, pair, s.clock.Now(), overlap)
		if err == nil {
			r.setSecrets(set)
		}
		return err
	})
	if err != nil {
		return sign.Pair{}, err
	}
	return pair, nil
}

// Secret returns the newest secret of a target: its own, or else the namespace's. Without a
// name, it returns the secret of the namespace, which it creates if needed.
func (s *Store) Secret(ctx context.Context, namespace, name string) (sign.Pair, error) {
	if name != "" {
		r, _, err := s.read(ctx, namespace, name)
		if err != nil {
			return sign.Pair{}, err
		}
		if len(r.Secrets) > 0 {
			return r.secretSet(namespace, name).Open(s.ring)
		}
	}

	r, _, err := s.namespaceSecret(ctx, namespace)
	if err != nil {
		return sign.Pair{}, err
	}
	return r.secretSet(namespace, "").Open(s.ring)
}

// Delete deletes a target. It returns [duly.ErrNotFound] if there is no such target. The target's
// jobs wait until it is created again.
func (s *Store) Delete(ctx context.Context, namespace, name string) error {
	return s.records.DeleteTarget(ctx, namespace, name)
}

// namespaceSecret returns the record with the secret of a namespace, and creates it if
// needed.
func (s *Store) namespaceSecret(ctx context.Context, namespace string) (*record, int64, error) {
	for try := 0; ; try++ {
		r, version, err := s.read(ctx, namespace, "")
		if err == nil && len(r.Secrets) > 0 || err != nil && !errors.Is(err, duly.ErrNotFound) {
			return r, version, err
		}

		// Two servers may create it at the same time. The loser of the conflict reads the winner's.
		created := &record{}
		created.setSecrets(sign.NewSet(s.ring, namespace, "", sign.NewPair()))
		err = s.records.PutTarget(ctx,
			contract.Target{Namespace: namespace, Version: version, Settings: created.encode()})
		switch {
		case err == nil:
			return created, version + 1, nil
		case !errors.Is(err, duly.ErrConflict) || try == maxConflicts:
			return nil, 0, err
		}
	}
}

// read returns a record and its version.
func (s *Store) read(ctx context.Context, namespace, name string) (*record, int64, error) {
	stored, err := s.records.FindTarget(ctx, namespace, name)
	if err != nil {
		return nil, 0, err
	}
	r, err := parse(stored.Settings)
	return r, stored.Version, err
}

// update changes a record. After a conflict with another server it repeats the change.
func (s *Store) update(
	ctx context.Context, namespace, name string, create bool, change func(*record) error,
) error {
	for try := 0; ; try++ {
		r, version, err := s.read(ctx, namespace, name)
		// Version 0 means that the record must not exist yet.
		if create && errors.Is(err, duly.ErrNotFound) {
			r, err = &record{}, nil
		}
		if err == nil {
			err = change(r)
		}
		if err != nil {
			return err
		}

		err = s.records.PutTarget(ctx,
			contract.Target{Namespace: namespace, Name: name, Version: version, Settings: r.encode()})
		if !errors.Is(err, duly.ErrConflict) || try == maxConflicts {
			return err
		}
	}
}
