package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/cmd/duly/internal/config"
	"github.com/dulymq/duly/contract"
)

// fromFlag is a position in a log: start, end, a time or a message.
type fromFlag struct{ from duly.From }

// String implements pflag.Value. The help shows it as the default.
func (f *fromFlag) String() string { return string(f.from) }

// Type implements pflag.Value.
func (f *fromFlag) Type() string { return "from" }

// Set implements pflag.Value.
func (f *fromFlag) Set(text string) error {
	p, err := contract.ParseFrom(duly.From(text))
	// The next cursor of a page is valid only for a read.
	if err == nil && text != "" && p.Kind != contract.KindNext {
		f.from = duly.From(text)
		return nil
	}
	var t time.Time
	if (timeFlag{&t, time.Local}).Set(text) != nil {
		return usageErrorf("write start, end, a time like 2030-12-24T18:00:00Z, or a position of the topic")
	}
	f.from = duly.FromTime(t)
	return nil
}

// byteCountFlag is a number of bytes, or none.
type byteCountFlag struct{ to *int64 }

// String implements pflag.Value.
func (f byteCountFlag) String() string { return "" }

// Type implements pflag.Value.
func (f byteCountFlag) Type() string { return "bytes" }

// Set implements pflag.Value.
func (f byteCountFlag) Set(text string) error {
	if text == "none" {
		*f.to = duly.None
		return nil
	}
	n, ok := config.ParseSize(text)

	// Zero would mean that the field is unchanged.
	if !ok || n < 1 {
		return usageErrorf("write a number of bytes like 500000, 500KiB or 20GiB, or none")
	}
	*f.to = n
	return nil
}

// filterFlag collects the conditions of a filter, of the form NAME=VALUE.
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
	if !ok || strings.HasSuffix(name, "!") { // conditions like type!=paid do not exist
		return usageErrorf("write a condition like type=paid or @key=customer-7, or none")
	}

	// A repeated flag adds a condition, so the filter is built again from all of them.
	f.conditions = append(f.conditions, duly.Condition{Name: name, Value: value})
	*f.to = duly.FilterOf(f.conditions...)
	return nil
}

// groupFlags adds the flags for the settings that only a group has.
func groupFlags(cmd *cobra.Command, f *pflag.FlagSet, g *duly.GroupConfig) {
	f.StringVar((*string)(&g.Order), "order", "",
		"of a group: key handles the messages of a key one at a time, in order; `none|key`")
	countVar(f, &g.MaxHeld, "max-held",
		"of a group: maximum number of messages that were received and are not done")
	f.Var(&filterFlag{to: &g.Filter}, "filter",
		"of a group: receive only messages with this header, or @key; if repeated, all must match; or none")
	optionalDurationVar(f, &g.Idle, "idle",
		"of a group: release the log after this time without a reserve, at least 1h")
	f.StringVar(&g.Target, "target", "",
		"of a group: the `queue` into which servers push each message, or none")
	completeValues(cmd, "order", string(duly.OrderNone), string(duly.OrderKeys))
}
