package contract

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// Placer is implemented by engines that own their storage. One of several
// engines, that of the default pool, so tells a server which namespace is in
// which pool. Whoever watches by [Watcher] is told of changes here as of those
// of tokens.
type Placer interface {
	// PutPlacement stores where a namespace is if what is stored has the
	// version of p (0: nothing is), and raises the version by one; else it is
	// [duly.ErrConflict]. A repeat after a lost answer is a conflict with itself.
	PutPlacement(ctx context.Context, p Placement) error
	// FindPlacement tells where a namespace is; [duly.ErrNotFound] where nobody has
	// said so.
	FindPlacement(ctx context.Context, namespace string) (Placement, error)
	// Placements lists what is stored, by namespace.
	Placements(ctx context.Context, p duly.PageParams) (PlacementPage, error)
}

// DefaultPool is the name of the pool that holds the tokens and the placements,
// and every namespace that was never placed.
const DefaultPool = "default"

// Placement says in which pool a namespace is.
type Placement struct {
	Namespace string
	// Pool is where its jobs are pushed.
	Pool string
	// From is the pool that it moves out of; empty where it does not move.
	From string
	// Phase is how far the move is; [Placed] if and only if From is empty.
	Phase MovePhase
	// Since is when the phase began, on the clock of the server that began it.
	Since time.Time
	// Former are the other pools that it has been in, at most MaxFormer.
	Former []string
	// Version counts the changes, from 1.
	Version int64
}

// MaxFormer is how many pools a placement remembers.
const MaxFormer = 16

// MovePhase is how far a namespace's move from one pool to another is.
type MovePhase string

// The phases, in their order.
const (
	// Placed: it does not move.
	Placed MovePhase = ""
	// Preparing: jobs are still pushed to the pool that it leaves (From);
	// queues are made in the other one as they are in this.
	Preparing MovePhase = "prepare"
	// Draining: jobs are pushed to the new pool, and taken from the old one
	// until it is empty.
	Draining MovePhase = "drain"
)

// PlacementPage is a page of placements.
type PlacementPage struct {
	Placements []Placement
	Next       string
}

// Validate reports [duly.ErrInvalid] with every bad field.
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
		f.Add("phase", "is %s, but the namespace does not move", Quoted(string(p.Phase)))
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

// Knows tells whether the namespace is or was in a pool.
func (p *Placement) Knows(pool string) bool {
	return p.Pool == pool || p.From == pool || slices.Contains(p.Former, pool)
}

// FormerText is Former as engines store it; [ParseFormer] reads it.
func (p *Placement) FormerText() string { return strings.Join(p.Former, ",") }

// ParseFormer reads what FormerText writes.
func ParseFormer(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// ValidatePool reports [duly.ErrInvalid] unless the name is one of a pool: 1–255 of
// A–Z a–z 0–9 . _ - that begin with a letter or a digit.
func ValidatePool(name string) error {
	var f BadFields
	checkName(&f, "pool", name, "")
	return f.Err()
}

// PlacementConflict is the error of a PutPlacement that comes too late.
func PlacementConflict(namespace string) error {
	return Errorf(duly.CodeConflict, "where namespace %s is has changed meanwhile; look again", namespace)
}

// PoolState is a pool of a server, and whether its engine answers.
type PoolState struct {
	Name  string
	Ready bool
}

// MoveState is where a namespace is and, if it moves, what the pool that it
// leaves still has of it.
type MoveState struct {
	Placement
	// Queues are those that are left there, and Left the jobs in them.
	Queues int
	Left   duly.Sizes
}
