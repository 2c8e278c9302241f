package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly/internal/clock"

	"github.com/dulymq/duly"
)

// Registry is implemented by engines that own their storage: who may do what.
// Such an engine also is a [Watcher] and a [Limiter].
type Registry interface {
	// PutToken stores a token under its hash, or replaces it as a whole.
	PutToken(ctx context.Context, t Token) error
	// FindToken finds a token by its hash; [duly.ErrNotFound].
	FindToken(ctx context.Context, hash [32]byte) (Token, error)
	// Tokens lists the tokens of one namespace ("" for all of them), in the
	// order of their hashes.
	Tokens(ctx context.Context, namespace string, p duly.PageParams) (TokenPage, error)
	// DeleteToken revokes a token; [duly.ErrNotFound].
	DeleteToken(ctx context.Context, hash [32]byte) error
	// Namespaces lists the namespaces that have queues, by name.
	Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error)
}

// Watcher tells whoever remembers tokens that they may have changed.
type Watcher interface {
	// WatchTokens calls tell(true) once it hears of changes, and again after
	// every change of a token (by PutToken, DeleteToken or LimitToken, in
	// whatever process) no later than a second after that was answered. What
	// tell then reads of the registry has the change in it. Several changes may
	// be told by one call, and a call may tell of none.
	//
	// When it can't hear for a while, as without its connection, it calls
	// tell(false): until the next tell(true), which also stands for whatever
	// was missed meanwhile, nothing that is remembered may be relied on. That
	// comes within a second too, so a dead connection has to be found out by
	// then.
	//
	// Calls come one after the other; tell must not call the engine's Close.
	// WatchTokens returns when ctx ends or the engine is closed, with the
	// context's error or [duly.ErrClosed].
	WatchTokens(ctx context.Context, tell func(hearing bool)) error
}

// Limiter bounds the calls of tokens, counted for all servers on one storage
// together. What was counted need not survive the engine.
type Limiter interface {
	// LimitToken replaces the limits of a token; [duly.ErrNotFound]. They hold from
	// the next Spend on, for a window that is under way as well. Safe to
	// repeat.
	LimitToken(ctx context.Context, hash [32]byte, l Limits) error
	// Spend counts one call under the token's limit for a right, which is
	// [RightProduce] or [RightConsume], and tells when the window began in which
	// it is counted: the zero time where there is no limit. It answers
	// [duly.ErrLimited] with RetryAfter if the limit is used up, and counts nothing
	// then; [duly.ErrNotFound] for an unknown token.
	Spend(ctx context.Context, hash [32]byte, right Right) (window time.Time, err error)
	// GiveBack takes one call off what was counted in that window, of which
	// Spend has told. It does nothing once the window is over.
	GiveBack(ctx context.Context, hash [32]byte, right Right, window time.Time) error
}

// Right is what a token allows.
type Right uint8

// The rights. RightAdmin includes the other two.
const (
	RightProduce Right = 1 << iota
	RightConsume
	RightAdmin
)

// Includes tells whether the rights cover one of the others.
func (r Right) Includes(other Right) bool { return r&RightAdmin != 0 || r&other != 0 }

var rightNames = [...]string{"produce", "consume", "admin"}

const someOfRights = "must be some of produce, consume, admin"

// Names lists the rights by their names on every wire.
func (r Right) Names() (names []string) {
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ParseRights reads the names of rights. It answers [duly.ErrInvalid] for any other
// text.
func ParseRights(names []string) (rights Right, err error) {
	for _, name := range names {
		i := slices.Index(rightNames[:], name)
		if i < 0 {
			return 0, Invalid("rights", "name %s, %s", Quoted(name), someOfRights)
		}
		rights |= 1 << i
	}
	return rights, nil
}

// AllNamespaces is the namespace of a token that belongs to all of them.
const AllNamespaces = "*"

// The bounds of tokens. Each is inclusive.
const (
	// MaxDescription is the length of a token's description, in bytes.
	MaxDescription = 255
	// MaxLimit is the largest bound on a token's calls in one window.
	MaxLimit = 1_000_000_000
	// MinLimitWindow and MaxLimitWindow bound how long such a window lasts.
	MinLimitWindow, MaxLimitWindow = time.Second, 366 * 24 * time.Hour
)

// Token is a stored token. The secret itself is never stored.
type Token struct {
	Hash        [32]byte // SHA-256 of the secret
	Namespace   string   // or AllNamespaces
	Rights      Right
	Description string // at most MaxDescription bytes, without control characters
	CreatedAt   time.Time
	Limits      Limits
}

// TokenPage is a page of tokens.
type TokenPage struct {
	Tokens []Token
	Next   string
}

// Validate reports [duly.ErrInvalid] with every bad field of a token.
func (t *Token) Validate() error {
	var f BadFields
	switch t.Namespace {
	case "":
		f.Add("namespace", "is missing; give one, or %s for all", AllNamespaces)
	case AllNamespaces:
	default:
		checkNamespace(&f, t.Namespace)
	}
	if t.Rights == 0 || t.Rights > RightProduce|RightConsume|RightAdmin {
		f.Add("rights", someOfRights)
	}
	if len(t.Description) > MaxDescription {
		f.size("description", "has %d bytes, may have at most %d", len(t.Description), MaxDescription)
	}
	if strings.ContainsFunc(t.Description, control) {
		f.Add("description", "contains a control character")
	}
	t.Limits.check(&f)
	return f.Err()
}

// Limits bound how many calls a token may make in a while. The zero Limits
// bound nothing.
type Limits struct {
	// Produce is for calls of Push and Consume for calls of Reserve, however
	// many jobs they carry; at most MaxLimit. 0: no bound.
	Produce, Consume int
	// Per is how long a window lasts that begins with the first call counted in
	// it: MinLimitWindow to MaxLimitWindow. 0 if and only if nothing is bounded.
	Per time.Duration
}

// Of is the bound on the calls for one right; 0: none.
func (l Limits) Of(right Right) int {
	switch right {
	case RightProduce:
		return l.Produce
	case RightConsume:
		return l.Consume
	}
	return 0
}

// Validate reports [duly.ErrInvalid] with every bad field.
func (l Limits) Validate() error {
	var f BadFields
	l.check(&f)
	return f.Err()
}

func (l Limits) check(f *BadFields) {
	for i, n := range [...]int{l.Produce, l.Consume} {
		if n < 0 || n > MaxLimit {
			f.Add("limits."+rightNames[i], "is %d, must be between 1 and %d, or left out for no limit", n, MaxLimit)
		}
	}
	switch {
	case l.Produce == 0 && l.Consume == 0 && l.Per != 0:
		f.Add("limits.per", "is %s, but nothing is limited; give produce or consume as well", duly.FormatDuration(l.Per))
	case (l.Produce != 0 || l.Consume != 0) && l.Per == 0:
		f.Add("limits.per", "is missing, must be between %s and %s", duly.FormatDuration(MinLimitWindow), duly.FormatDuration(MaxLimitWindow))
	case (l.Produce != 0 || l.Consume != 0) && (l.Per < MinLimitWindow || l.Per > MaxLimitWindow):
		f.Add("limits.per", "is %s, must be between %s and %s", duly.FormatDuration(l.Per), duly.FormatDuration(MinLimitWindow), duly.FormatDuration(MaxLimitWindow))
	}
}

// LimitWindow is what was counted under one limit of one token. The arithmetic
// is that of every engine. The zero LimitWindow has counted nothing.
type LimitWindow struct {
	Begin int64 // on the engine's clock, in ms
	Calls int
}

// Spend counts one call at a moment of the engine's clock, in a new window if
// this one is over; one that begins ahead of the clock was left behind by a
// step back, and is over too. It answers [duly.ErrLimited] if the limit is used up.
func (w LimitWindow) Spend(l Limits, right Right, now int64) (LimitWindow, error) {
	end := w.Begin + clock.Millis(l.Per)
	if w.Calls == 0 || now >= end || now < w.Begin {
		return LimitWindow{now, 1}, nil
	}
	if limit := l.Of(right); w.Calls >= limit {
		return w, &duly.Error{
			Code: duly.CodeLimited, RetryAfter: time.Duration(end-now) * time.Millisecond,
			Message: fmt.Sprintf("the token may make %d calls to %s in %s and has made them; repeat in %s", limit, right.Names()[0],
				duly.FormatDuration(l.Per), duly.FormatDuration(time.Duration(end-now)*time.Millisecond)),
		}
	}
	w.Calls++
	return w, nil
}

// GiveBack takes a call back that was counted in the window of that beginning.
func (w LimitWindow) GiveBack(begin int64) LimitWindow {
	if w.Begin == begin && w.Calls > 0 {
		w.Calls--
	}
	return w
}
