package contract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// Registry stores tokens. It is implemented by engines that own their storage. Such an
// engine also is a [Watcher] and a [Limiter].
type Registry interface {
	// PutToken stores a token under its hash, or replaces the whole token.
	PutToken(ctx context.Context, t Token) error
	// FindToken returns a token by its hash. It returns [duly.ErrNotFound] if there is none.
	FindToken(ctx context.Context, hash [32]byte) (Token, error)
	// Tokens lists the tokens of a namespace, in the order of their hashes. The namespace "" means
	// all namespaces.
	Tokens(ctx context.Context, namespace string, p duly.PageParams) (TokenPage, error)
	// DeleteToken revokes a token. It returns [duly.ErrNotFound] if there is none.
	DeleteToken(ctx context.Context, hash [32]byte) error
	// Namespaces lists the namespaces that have queues, by name.
	Namespaces(ctx context.Context, p duly.PageParams) (duly.NamePage, error)
}

// Watcher reports that tokens may have changed, to callers that cache them.
type Watcher interface {
	// WatchTokens calls changed(true) when the watch begins. It calls it again after every change
	// of a token by PutToken, DeleteToken or LimitToken in any process, at most one second after
	// that call has returned. A read inside changed sees the change. One call may report several
	// changes, or none.
	//
	// While WatchTokens receives no reports, for example because its connection is lost, cached
	// tokens may be wrong. In that case it calls changed(false), at most one second later, so it
	// must detect a dead connection by then. The next changed(true) also reports the missed
	// changes.
	//
	// WatchTokens never calls changed concurrently. changed must not call the engine's Close.
	// WatchTokens returns when ctx ends or the engine is closed, with the context's error or
	// [duly.ErrClosed].
	WatchTokens(ctx context.Context, changed func(watching bool)) error
}

// Limiter bounds the calls of tokens. All servers with the same storage share the counts. The
// counts may be lost when the engine closes.
type Limiter interface {
	// LimitToken replaces the limits of a token. The new limits apply from the next Spend on, even
	// in a window that has already begun. LimitToken returns [duly.ErrNotFound] for an unknown
	// token. A repeat is safe.
	LimitToken(ctx context.Context, hash [32]byte, l Limits) error
	// Spend counts one call against the token's limit for a right, [RightProduce] or
	// [RightConsume]. It returns the time at which the window of the call began, or the zero time
	// if there is no limit. If the limit is used up, Spend counts nothing and returns
	// [duly.ErrLimited] with RetryAfter. For an unknown token it returns [duly.ErrNotFound].
	Spend(ctx context.Context, hash [32]byte, right Right) (window time.Time, err error)
	// GiveBack undoes a Spend, whose window it needs. It does nothing if the window has
	// ended.
	GiveBack(ctx context.Context, hash [32]byte, right Right, window time.Time) error
}

// Right is a set of the rights of a token.
type Right uint8

// The rights. RightAdmin includes the other two.
const (
	RightProduce Right = 1 << iota
	RightConsume
	RightAdmin
)

// Includes reports whether the rights include one of the others.
func (r Right) Includes(other Right) bool { return r&RightAdmin != 0 || r&other != 0 }

var rightNames = [...]string{"produce", "consume", "admin"}

const someOfRights = "must be some of produce, consume, admin"

// Names returns the names of the rights on every wire.
func (r Right) Names() (names []string) {
	for i, name := range rightNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// ParseRights parses the names of rights. It returns [duly.ErrInvalid] for any other text.
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

// AllNamespaces is the namespace of a token that is valid in all namespaces.
const AllNamespaces = "*"

// The limits of the fields of a token. All are inclusive.
const (
	// MaxDescription is the length of a token's description, in bytes.
	MaxDescription = 255
	// MaxLimit is the largest limit for a token's calls in one window.
	MaxLimit = 1_000_000_000
	// MinLimitWindow and MaxLimitWindow are the shortest and the longest window.
	MinLimitWindow, MaxLimitWindow = time.Second, 366 * 24 * time.Hour
)

// Token is a stored token. An engine never stores the secret itself.
type Token struct {
	Hash        [32]byte // SHA-256 of the secret
	Namespace   string   // a namespace, or AllNamespaces
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

// Validate returns [duly.ErrInvalid] with every bad field of a token.
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

// Limits limit the calls of a token in a window of time. The zero value has no limit.
type Limits struct {
	// Produce limits the number of calls to Push, and Consume those to Reserve, however many jobs
	// the calls have. The maximum is [MaxLimit]. 0 means no limit.
	Produce, Consume int
	// Per is the length of a window, which begins with the first counted call: [MinLimitWindow] to
	// [MaxLimitWindow]. It is 0 if and only if there are no limits.
	Per time.Duration
}

// Of returns the limit for the calls of one right, or 0 if there is none.
func (l Limits) Of(right Right) int {
	switch right {
	case RightProduce:
		return l.Produce
	case RightConsume:
		return l.Consume
	}
	return 0
}

// Validate returns [duly.ErrInvalid] with every bad field.
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

	limited := l.Produce != 0 || l.Consume != 0
	shortest, longest := duly.FormatDuration(MinLimitWindow), duly.FormatDuration(MaxLimitWindow)
	switch {
	case !limited && l.Per != 0:
		f.Add("limits.per", "is %s, but nothing is limited; give produce or consume as well", duly.FormatDuration(l.Per))
	case limited && l.Per == 0:
		f.Add("limits.per", "is missing, must be between %s and %s", shortest, longest)
	case limited && (l.Per < MinLimitWindow || l.Per > MaxLimitWindow):
		f.Add("limits.per", "is %s, must be between %s and %s", duly.FormatDuration(l.Per), shortest, longest)
	}
}

// LimitWindow has the count of calls for one limit of one token. Every engine uses this
// arithmetic. The zero LimitWindow has counted nothing.
type LimitWindow struct {
	Begin int64 // start of the window, on the engine's clock in ms
	Calls int
}

// Spend counts one call at a time of the engine's clock. It begins a new window if this one has
// ended, or if its start is in the future because the clock was set back. It returns
// [duly.ErrLimited] if the limit is used up.
func (w LimitWindow) Spend(l Limits, right Right, now int64) (LimitWindow, error) {
	end := w.Begin + clock.Millis(l.Per)
	// A window in the future would block the token until the clock has caught up.
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

// GiveBack removes a call that was counted in the window that started at begin.
func (w LimitWindow) GiveBack(begin int64) LimitWindow {
	// If another window has begun since, that window has not counted the call.
	if w.Begin == begin && w.Calls > 0 {
		w.Calls--
	}
	return w
}
