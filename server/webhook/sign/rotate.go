package sign

import (
	"errors"
	"fmt"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/server/webhook/seal"
)

// The overlap of a rotation, during which the old secret signs too.
const (
	DefaultOverlap = 24 * time.Hour
	MaxOverlap     = 30 * 24 * time.Hour
)

// ErrNoSecret means that a set has no live secret, so it cannot sign.
var ErrNoSecret = errors.New("no live secret")

// Set is the stored secret of a namespace or a target. A Set is never modified: Rotate returns a
// new Set.
type Set struct {
	Namespace string
	// Target is empty for the namespace's own secret.
	Target string
	// Generations has the newest first, and at most two.
	Generations []Generation
}

// Generation is one sealed pair of keys.
type Generation struct {
	// Number is 1 for the first generation, and rises by 1. The seal authenticates it.
	Number uint64
	Sealed []byte
	// Until is the end of the generation; zero: no end.
	Until time.Time
}

// live reports whether the generation signs at the time now.
func (g Generation) live(now time.Time) bool { return g.Until.IsZero() || now.Before(g.Until) }

func (s Set) sealPlace(number uint64) seal.Place {
	return seal.Place{Kind: "secret", Namespace: s.Namespace, Target: s.Target, Generation: number}
}

// NewSet returns a set with one generation.
func NewSet(ring *seal.Ring, namespace, target string, p Pair) Set {
	s := Set{Namespace: namespace, Target: target}
	s.Generations = []Generation{s.sealed(ring, 1, p)}
	return s
}

func (s Set) sealed(ring *seal.Ring, number uint64, p Pair) Generation {
	return Generation{Number: number, Sealed: ring.Seal(p.encode(), s.sealPlace(number))}
}

// Rotate returns the set with p as the newest generation. The previous generation signs until the
// end of the overlap, and older generations end at once. An overlap of 0 ends every old generation
// at once.
func (s Set) Rotate(ring *seal.Ring, p Pair, now time.Time, overlap time.Duration) (Set, error) {
	if overlap < 0 || overlap > MaxOverlap {
		return Set{}, contract.Invalid("overlap", "is %s, must be now, or at most %s",
			duly.FormatDuration(overlap), duly.FormatDuration(MaxOverlap))
	}

	var number uint64 = 1
	var old []Generation
	if len(s.Generations) > 0 {
		newest := s.Generations[0]
		number = newest.Number + 1
		newest.Until = now.Add(overlap)
		// If the overlap is 0, the old secret must not sign once more.
		if newest.live(now) {
			old = append(old, newest)
		}
	}
	s.Generations = append([]Generation{s.sealed(ring, number, p)}, old...)
	return s, nil
}

// Open returns the newest pair of keys.
func (s Set) Open(ring *seal.Ring) (Pair, error) {
	if len(s.Generations) == 0 {
		return Pair{}, ErrNoSecret
	}
	return s.open(ring, s.Generations[0])
}

func (s Set) open(ring *seal.Ring, g Generation) (Pair, error) {
	text, err := ring.Open(g.Sealed, s.sealPlace(g.Number))
	if err != nil {
		return Pair{}, fmt.Errorf("secret %d of %s: %w", g.Number, s.owner(), err)
	}
	return parsePair(text)
}

func (s Set) owner() string {
	if s.Target == "" {
		return "namespace " + s.Namespace
	}
	return "target " + s.Target + " of namespace " + s.Namespace
}

// Signer returns the signer of the set at the time now. Every live generation must open, because a
// receiver may know only one of the secrets.
//
// until is the time at which the signer must be replaced, because a generation ends. Zero means
// never.
func (s Set) Signer(ring *seal.Ring, with Versions, now time.Time) (signer *Signer, until time.Time, err error) {
	var pairs []Pair
	for _, g := range s.Generations {
		if !g.live(now) {
			continue
		}

		p, err := s.open(ring, g)
		if err != nil {
			return nil, time.Time{}, err
		}
		pairs = append(pairs, p)
		// The caller makes a new signer when the first secret ends.
		if !g.Until.IsZero() && (until.IsZero() || g.Until.Before(until)) {
			until = g.Until
		}
	}

	if len(pairs) == 0 {
		return nil, time.Time{}, fmt.Errorf("%s: %w", s.owner(), ErrNoSecret)
	}
	return newSigner(with, pairs), until, nil
}
