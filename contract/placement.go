package contract

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Placer stores which namespace is in which pool. It is implemented by engines that own their
// storage. A server with several engines uses the Placer of the default pool. A [Watcher] reports
// changes of placements like those of tokens.
type Placer interface {
	// PutPlacement stores a placement if the stored one has the version of p (0 means that none is
	// stored), and raises the version by one. Otherwise it returns [duly.ErrConflict]. If the call
	// is repeated after a lost answer, it may conflict with its first try.
	PutPlacement(ctx context.Context, p Placement) error
	// FindPlacement returns the placement of a namespace. It returns [duly.ErrNotFound] if
	// none is stored.
	FindPlacement(ctx context.Context, namespace string) (Placement, error)
	// Placements lists the stored placements by namespace.
	Placements(ctx context.Context, p duly.PageParams) (PlacementPage, error)
}

// DefaultPool is the name of the pool that stores the tokens, the placements, and every
// namespace without a placement.
const DefaultPool = "default"

// Placement is the pool of a namespace.
type Placement struct {
	Namespace string
	// Pool is the pool of the namespace. During a move it is the new pool.
	Pool string
	// From is the pool that the namespace leaves. It is empty if the namespace does not
	// move.
	From string
	// Phase is the phase of the move. It is [Placed] if and only if From is empty.
	Phase MovePhase
	// Since is the time at which the phase began, on the clock of the server that began it.
	Since time.Time
	// Former are the pools that the namespace was in before, at most [MaxFormer].
	Former []string
	// Version counts the changes, from 1.
	Version int64
}

// MaxFormer is the largest number of former pools in a placement.
const MaxFormer = 16

// MovePhase is a phase of the move of a namespace from one pool to another.
type MovePhase string

// The phases of a move, in their order.
const (
	// Placed means that the namespace does not move.
	Placed MovePhase = ""
	// Preparing means that jobs are still pushed to the old pool (From). The server creates the
	// queues in the new pool, with the settings that they have in the old one.
	Preparing MovePhase = "prepare"
	// Draining means that jobs are pushed to the new pool, and reserved from the old pool first,
	// until it is empty.
	Draining MovePhase = "drain"
)

// PlacementPage is a page of placements.
type PlacementPage struct {
	Placements []Placement
	Next       string
}

// Validate returns [duly.ErrInvalid] with every bad field.
func (p *Placement) Validate() error {
	var f BadFields
	checkNamespace(&f, p.Namespace)
	checkName(&f, "pool", p.Pool, "")

	switch {
	case p.From != "":
		checkName(&f, "from", p.From, "")
		if p.From == p.Pool {
			f.Add("from", "is %s, the pool that the namespace moves to", Quoted(p.From))
		}
		if p.Phase != Preparing && p.Phase != Draining {
			f.Add("phase", "must be %s or %s while the namespace moves", Preparing, Draining)
		}
	case p.Phase != Placed:
		f.Add("phase", "is %s, but the namespace is not moving", Quoted(string(p.Phase)))
	}

	if len(p.Former) > MaxFormer {
		f.Add("former", "are %d pools, may be at most %d", len(p.Former), MaxFormer)
	}
	for _, name := range p.Former {
		checkName(&f, "former", name, "")
	}
	if p.Version < 0 {
		f.Add("version", "is %d, must be at least 0", p.Version)
	}
	return f.Err()
}

// Knows reports whether the namespace is or was in a pool.
func (p *Placement) Knows(pool string) bool {
	return p.Pool == pool || p.From == pool || slices.Contains(p.Former, pool)
}

// FormerText returns Former in the form that engines store. [ParseFormer] parses it.
func (p *Placement) FormerText() string { return strings.Join(p.Former, ",") }

// ParseFormer parses the text that FormerText returns.
func ParseFormer(text string) []string {
	// For an empty text, Split would return one empty name.
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ValidatePool returns [duly.ErrInvalid] unless the name is valid for a pool: 1–255 of
// A–Z a–z 0–9 . _ - with a letter or a digit at the beginning.
func ValidatePool(name string) error {
	var f BadFields
	checkName(&f, "pool", name, "")
	return f.Err()
}

// PoolState is the state of a pool of a server. Ready reports that its engine answers.
type PoolState struct {
	Name  string
	Ready bool
}

// MoveState is a placement with the progress of its move.
type MoveState struct {
	Placement
	// Queues is the number of queues that the old pool still has, and Left the sizes of
	// these together.
	Queues int
	Left   duly.Sizes
}
