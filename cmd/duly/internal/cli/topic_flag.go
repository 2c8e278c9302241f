package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
)

// fromFlag is a place in a log.
type fromFlag struct{ from duly.From }

// String implements pflag.Value; it is the default that the help shows.
func (f *fromFlag) String() string { return string(f.from) }

// Type implements pflag.Value.
func (f *fromFlag) Type() string { return "place" }

// Set implements pflag.Value.
func (f *fromFlag) Set(text string) error {
	p, err := duly.From(text).Parts()
	if err == nil && text != "" && p.Kind != duly.KindNext {
		f.from = duly.From(text)
		return nil
	}
	var t time.Time
	if (timeFlag{&t, time.Local}).Set(text) != nil {
		return misusef("write start, end, a time like 2030-12-24T18:00:00Z, or a position of the topic")
	}
	f.from = duly.FromTime(t)
	return nil
}

// bytesFlag is a number of bytes, or none.
type bytesFlag struct{ to *int64 }

// String implements pflag.Value.
func (f bytesFlag) String() string { return "" }

// Type implements pflag.Value.
func (f bytesFlag) Type() string { return "bytes" }

// Set implements pflag.Value.
func (f bytesFlag) Set(text string) error {
	if text == "none" {
		*f.to = duly.None
		return nil
	}
	number, unit := text, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if cut, found := strings.CutSuffix(text, suffix); found {
			number, unit = cut, 1<<(10*(i+1))
		}
	}
	var n int
	if err := (countFlag{to: &n}).Set(number); err != nil || int64(n) > (1<<62)/unit {
		return misusef("write a number of bytes like 500000, 500KiB or 20GiB, or none")
	}
	*f.to = int64(n) * unit
	return nil
}

// filterFlag collects the conditions of a filter, written NAME=VALUE.
type filterFlag struct {
	to         *duly.Filter
	conditions []duly.Condition
}

// String implements pflag.Value.
func (f *filterFlag) String() string { return "" }

// Type implements pflag.Value.
func (f *filterFlag) Type() string { return "name=value" }

// Set implements pflag.Value.
func (f *filterFlag) Set(text string) error {
	if text == string(duly.NoFilter) {
		*f.to = duly.NoFilter
		return nil
	}
	name, value, ok := strings.Cut(text, "=")
	if !ok || strings.HasSuffix(name, "!") { // there is no condition type!=paid
		return misusef("write a condition like type=paid or @key=customer-7, or none")
	}
	f.conditions = append(f.conditions, duly.Condition{Name: name, Value: value})
	*f.to = duly.FilterOf(f.conditions...)
	return nil
}

// groupFlags adds the flags for the settings that only a group has.
func groupFlags(cmd *cobra.Command, f *pflag.FlagSet, g *duly.GroupConfig) {
	f.StringVar((*string)(&g.Order), "order", "",
		"of a group: key handles the messages of one key one at a time; `none|key`")
	countVar(f, &g.MaxHeld, "max-held", "of a group: maximum number of messages that were handed out and are not done")
	f.Var(&filterFlag{to: &g.Filter}, "filter",
		"of a group: see only messages with this header, or @key; if repeated, all must match; or none")
	spanVar(f, &g.Idle, "idle", "of a group: need no messages after this time without a reserve, at least 1h")
	f.StringVar(&g.Target, "target", "", "of a group: the `queue` that the servers push each message into, or none")
	fixed(cmd, "order", string(duly.OrderNone), string(duly.OrderKeys))
}
