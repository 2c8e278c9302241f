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

// Importer imports the data of a Source. Source and Target must be set.
type Importer struct {
	// Source has the jobs, and Admin the tokens. If Admin is nil, no tokens are imported.
	Source, Admin *Source
	// Pool is the name of the source among lmstfy's pools.
	Pool string
	// Namespaces are the namespaces to import. If it is empty, all of them are imported.
	Namespaces []string
	// Target returns the engine for a namespace's jobs.
	Target func(ctx context.Context, namespace string) (contract.Engine, error)
	// AddToken stores a token by its hash. It returns duly.ErrConflict if the token exists.
	// Hash returns the hash of a token's text.
	AddToken func(ctx context.Context, t contract.Token) error
	Hash     func(namespace, text string) [32]byte
	// Place, if set, is called before the first job of a namespace.
	Place func(ctx context.Context, namespace string) error
	// Journal has the jobs that earlier runs have imported.
	Journal *Journal
	// DryRun makes the import count and store nothing.
	DryRun bool
	// Progress, if set, is called from time to time.
	Progress func(done, total int64)

	now    time.Time // time of the source's clock at which a batch was read
	report Report
	done   int64
	total  int64
}

// Report is the result of an import.
type Report struct {
	Namespaces int `json:"namespaces"`
	Queues     int `json:"queues"`
	// Tokens is the number of created tokens, and Limited the number of those with limits.
	// KnownTokens is the number of tokens that existed before.
	Tokens      int `json:"tokens"`
	Limited     int `json:"limited"`
	KnownTokens int `json:"known_tokens"`
	// Ready and Delayed count pushed jobs, and Dead counts buried ones.
	Ready   int64 `json:"ready"`
	Delayed int64 `json:"delayed"`
	Dead    int64 `json:"dead"`
	// Known counts jobs that were imported before.
	Known int64 `json:"known"`
	// Gone counts entries of jobs that were acked or have expired.
	Gone int64 `json:"gone"`
	// Left counts the items that were not imported, by reason. Examples names some of them.
	Left     map[string]int64 `json:"left"`
	Examples []string         `json:"examples"`
}

// Empty reports whether there was nothing to import.
func (r *Report) Empty() bool {
	jobs := r.Ready + r.Delayed + r.Dead + r.Known + r.Gone
	return r.Namespaces == 0 && r.Tokens+r.KnownTokens == 0 && jobs == 0 && len(r.Left) == 0
}

// maxExamples limits the examples of a report.
const maxExamples = 20

// skip counts an item that is not imported.
func (r *Report) skip(reason, item string) {
	if r.Left == nil {
		r.Left = map[string]int64{}
	}
	r.Left[reason]++
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, item+": "+reason)
	}
}

// The reasons why an item is not imported.
const (
	whyConsumed = "a consumer has its last try; run again after its ttr"
	whyForm     = "has an unknown form"
	whyExpires  = "expires before it is due"
	whyName     = "has an invalid name"
	whyV2       = "lmstfy's second storage engine is not supported"
	whyLeased   = "is leased here, maybe by an interrupted run; it is dead when that lease ends; run again then"
	whyReady    = "is ready here, and could not be reserved to bury it; " +
		"run again when the queue is not paused and no other job goes before it"
	whyTried   = "a consumer has reserved it; it is tried once more"
	whyMoving  = "the queue changes all the time; run again"
	whyRefused = "was refused: "
	whyLimits  = "has invalid limits: "
)

// Run imports everything. After an error, the report has the items that were imported before.
func (im *Importer) Run(ctx context.Context) (Report, error) {
	err := im.run(ctx)
	return im.report, err
}

func (im *Importer) run(ctx context.Context) error {
	if err := im.importTokens(ctx); err != nil {
		return err
	}
	queues, err := im.queues(ctx)
	if err != nil {
		return err
	}

	// Data of lmstfy's second storage engine is reported but not imported.
	for _, key := range []string{"m2/ns", "timer_set_v2"} {
		if n, err := im.Source.size(ctx, "EXISTS", key); err != nil {
			return err
		} else if n > 0 {
			im.report.skip(whyV2, key)
		}
	}

	if err := im.countEntries(ctx, queues); err != nil {
		return err
	}
	for _, q := range queues {
		if err := im.importLists(ctx, q); err != nil {
			return err
		}
	}

	return im.importTimers(ctx)
}

// chosen reports whether to import a namespace.
func (im *Importer) chosen(namespace string) bool {
	return len(im.Namespaces) == 0 || slices.Contains(im.Namespaces, namespace)
}

// queues returns the queues of the chosen namespaces, by name.
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
		// An invalid name can't be placed; its jobs are reported later.
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
				im.report.skip(whyName, "queue "+q.String())
				continue
			}
			queues = append(queues, q)
			im.report.Queues++
		}
	}

	return queues, nil
}

// countEntries counts the entries, for the progress.
func (im *Importer) countEntries(ctx context.Context, queues []duly.QueueRef) (err error) {
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
		// Jobs that are pushed during the import can exceed the counted total.
		im.Progress(im.done, max(im.total, im.done))
	}
}

// importTokens creates the tokens of the source, with their limits.
func (im *Importer) importTokens(ctx context.Context) error {
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
			if err := im.importToken(ctx, namespace, text, description, limits[namespace+"/"+text]); err != nil {
				return err
			}
		}
	}

	return nil
}

func (im *Importer) importToken(
	ctx context.Context, namespace, text, description string, l contract.Limits,
) error {
	t := contract.Token{
		Hash: im.Hash(namespace, text), Namespace: namespace, Rights: contract.RightProduce | contract.RightConsume,
		Description: validDescription(description), Limits: l,
	}
	what := fmt.Sprintf("a token of namespace %s (%x)", namespace, t.Hash[:4])
	if err := l.Validate(); err != nil {
		im.report.skip(whyLimits+reason(err), what)
		// The token is still useful without its limits.
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
		im.report.skip(whyRefused+reason(err), what)
	default:
		return err
	}

	return nil
}

// validDescription converts a description to a form that the contract accepts.
func validDescription(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if len(text) > contract.MaxDescription {
		// The cut may have split a character.
		text = strings.ToValidUTF8(text[:contract.MaxDescription], "")
	}
	return text
}

// reason returns the message of an error.
func reason(err error) string {
	var e *duly.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "internal error"
}
