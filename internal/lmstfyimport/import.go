package lmstfyimport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Importer brings over what a Source has. Source and Target must be set.
type Importer struct {
	// Source has the jobs, Admin the tokens. Admin nil: no tokens are taken.
	Source, Admin *Source
	// Pool is lmstfy's name for the source among its pools.
	Pool string
	// Namespaces are those to take; none: all of them.
	Namespaces []string
	// Target is the engine for a namespace's jobs.
	Target func(ctx context.Context, namespace string) (contract.Engine, error)
	// AddToken stores a token by its hash, which Hash makes of its text;
	// duly.ErrConflict if it is there.
	AddToken func(ctx context.Context, t contract.Token) error
	Hash     func(namespace, text string) [32]byte
	// Place, if set, is called before the first job of a namespace goes there.
	Place func(ctx context.Context, namespace string) error
	// Journal is what earlier runs have brought over.
	Journal *Journal
	// DryRun only counts.
	DryRun bool
	// Progress, if set, is called now and then.
	Progress func(done, total int64)

	now    time.Time // on the source's clock, when a batch is read
	report Report
	done   int64
	total  int64
}

// Report says what was brought over.
type Report struct {
	Namespaces int `json:"namespaces"`
	Queues     int `json:"queues"`
	// Tokens and Limited are those made now, KnownTokens were there.
	Tokens      int `json:"tokens"`
	Limited     int `json:"limited"`
	KnownTokens int `json:"known_tokens"`
	// Ready and Delayed are the jobs pushed now, Dead those buried now.
	Ready   int64 `json:"ready"`
	Delayed int64 `json:"delayed"`
	Dead    int64 `json:"dead"`
	// Known jobs were brought over before.
	Known int64 `json:"known"`
	// Gone are entries of jobs that were acked or have expired.
	Gone int64 `json:"gone"`
	// Left are those that were not taken, by why; Examples are some of them.
	Left     map[string]int64 `json:"left"`
	Examples []string         `json:"examples"`
}

// Empty reports whether there was nothing at all to bring over.
func (r *Report) Empty() bool {
	jobs := r.Ready + r.Delayed + r.Dead + r.Known + r.Gone
	return r.Namespaces == 0 && r.Tokens+r.KnownTokens == 0 && jobs == 0 && len(r.Left) == 0
}

// mostExamples is how many jobs a report names that were not taken.
const mostExamples = 20

func (r *Report) leave(why, what string) {
	if r.Left == nil {
		r.Left = map[string]int64{}
	}
	r.Left[why]++
	if len(r.Examples) < mostExamples {
		r.Examples = append(r.Examples, what+": "+why)
	}
}

// The reasons why something is not taken.
const (
	whyHeld    = "is in a consumer's hands for its last try; run again once its ttr is over"
	whyForm    = "has a form that is not known"
	whyExpires = "expires before it is due"
	whyName    = "has a name that is none here"
	whyV2      = "lmstfy's second storage engine is not read"
	whyLeased  = "is leased here, maybe by a run that was cut short; it is dead when that lease is over; run again then to be sure"
	whyWaits   = "is ready here, and could not be taken to bury it; run again when the queue is not paused and others don't go before it"
	whyTried   = "a consumer has taken it; it is tried once more"
	whyMoving  = "the queue changes all the time; run again"
	whyRefused = "was refused: "
	whyNoLimit = "the limits are none here: "
)

// Run brings everything over. After an error the report says how far it came.
func (im *Importer) Run(ctx context.Context) (Report, error) {
	err := im.run(ctx)
	return im.report, err
}

func (im *Importer) run(ctx context.Context) error {
	if err := im.tokens(ctx); err != nil {
		return err
	}
	queues, err := im.queues(ctx)
	if err != nil {
		return err
	}

	for _, key := range []string{"m2/ns", "timer_set_v2"} {
		if n, err := im.Source.size(ctx, "EXISTS", key); err != nil {
			return err
		} else if n > 0 {
			im.report.leave(whyV2, key)
		}
	}

	if err := im.measure(ctx, queues); err != nil {
		return err
	}
	for _, q := range queues {
		if err := im.lists(ctx, q); err != nil {
			return err
		}
	}

	return im.timers(ctx)
}

// chosen reports whether a namespace is to be taken.
func (im *Importer) chosen(namespace string) bool {
	return len(im.Namespaces) == 0 || slices.Contains(im.Namespaces, namespace)
}

// queues are those of the chosen namespaces, by name.
func (im *Importer) queues(ctx context.Context) (queues []duly.QueueRef, err error) {
	namespaces, err := im.Source.fields(ctx, "m/ns")
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		if !im.chosen(namespace) {
			continue
		}
		im.report.Namespaces++
		if im.Place != nil && !im.DryRun && contract.ValidateNamespace(namespace) == nil {
			if err := im.Place(ctx, namespace); err != nil {
				return nil, err
			}
		}
		names, err := im.Source.fields(ctx, "m/ns/"+namespace)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			q := duly.QueueRef{Namespace: namespace, Name: name}
			if contract.ValidateQueue(q) != nil {
				im.report.leave(whyName, "queue "+q.String())
				continue
			}
			queues = append(queues, q)
			im.report.Queues++
		}
	}

	return queues, nil
}

// measure counts the entries, for the progress.
func (im *Importer) measure(ctx context.Context, queues []duly.QueueRef) (err error) {
	if im.total, err = im.Source.size(ctx, "ZCARD", "timer_set"); err != nil {
		return err
	}
	for _, q := range queues {
		for _, list := range []string{"q/", "d/"} {
			n, err := im.Source.size(ctx, "LLEN", list+q.String())
			if err != nil {
				return err
			}
			im.total += n
		}
	}
	return nil
}

func (im *Importer) progress(n int) {
	im.done += int64(n)
	if im.Progress != nil {
		im.Progress(im.done, max(im.total, im.done))
	}
}

// tokens makes the tokens that the source has, with their limits.
func (im *Importer) tokens(ctx context.Context) error {
	if im.Admin == nil {
		return nil
	}
	tokens, err := im.Admin.tokens(ctx, im.Pool)
	if err != nil {
		return err
	}

	limits, err := im.Admin.limits(ctx, im.Pool)
	if err != nil {
		return err
	}
	for namespace, texts := range tokens {
		for text, description := range texts {
			if !im.chosen(namespace) {
				continue
			}
			if err := im.token(ctx, namespace, text, description, limits[namespace+"/"+text]); err != nil {
				return err
			}
		}
	}

	return nil
}

func (im *Importer) token(ctx context.Context, namespace, text, description string, l contract.Limits) error {
	t := contract.Token{
		Hash: im.Hash(namespace, text), Namespace: namespace, Rights: contract.RightProduce | contract.RightConsume, Description: describe(description), Limits: l,
	}
	what := fmt.Sprintf("a token of namespace %s (%x)", namespace, t.Hash[:4])
	if err := l.Validate(); err != nil {
		im.report.leave(whyNoLimit+reason(err), what)
		t.Limits = contract.Limits{}
	}

	var err error
	if !im.DryRun {
		err = im.AddToken(ctx, t)
	}
	switch duly.CodeOf(err) {
	case "":
		im.report.Tokens++
		if t.Limits != (contract.Limits{}) {
			im.report.Limited++
		}
	case duly.CodeConflict:
		im.report.KnownTokens++
	case duly.CodeInvalid:
		im.report.leave(whyRefused+reason(err), what)
	default:
		return err
	}

	return nil
}

// describe is a description as the contract takes it.
func describe(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if len(text) > contract.MaxDescription {
		text = strings.ToValidUTF8(text[:contract.MaxDescription], "")
	}
	return text
}

// reason is what an error says.
func reason(err error) string {
	var e *duly.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "internal error"
}
