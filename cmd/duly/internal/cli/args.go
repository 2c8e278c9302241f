package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
)

// badFlag says in one form what is wrong with a flag.
func badFlag(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return misuse{err.Error()}
	}
	if number := new(strconv.NumError); errors.As(err, &number) { // whose text is about Go
		return misusef("--%s can't be %q: write a whole number%s", bad.GetFlag().Name, bad.GetValue(), numberBounds[bad.GetFlag().Name])
	}
	return misusef("--%s can't be %q: %v", bad.GetFlag().Name, bad.GetValue(), bad.Unwrap())
}

// numberBounds are those of the flags for a number that others judge.
var numberBounds = map[string]string{
	"priority": fmt.Sprintf(" between %d and %d", duly.MinPriority, duly.MaxPriority),
}

// fault is what an error of one field says of it.
func fault(err error) string {
	var e *duly.Error
	if errors.As(err, &e) && len(e.Fields) == 1 {
		return e.Fields[0].Problem
	}
	return err.Error()
}

// noArgs is for commands without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misusef("%s takes no argument, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// wants is for commands with arguments: their names as the help shows them,
// the last with "…" if it may be repeated, in brackets if it may be missing.
func wants(names ...string) cobra.PositionalArgs {
	least, most := len(names), len(names)
	last := names[len(names)-1]
	if strings.HasPrefix(last, "[") {
		least--
	}
	if strings.Contains(last, "…") {
		most = -1
	}
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return misusef("%s lacks its %s", cmd.CommandPath(), strings.Trim(names[len(args)], "[]…"))
		case most >= 0 && len(args) > most:
			return misusef("%s takes %s and no more, but got %q (quote what belongs together)",
				cmd.CommandPath(), strings.Join(names, " "), args[most])
		}
		return nil
	}
}

// durationFlag is a duration in the form of every wire.
type durationFlag struct {
	to   *time.Duration
	none bool // "none" may be given
	zero bool // 0s may be given
	// least and most are what it may be, where others judge that; here they only
	// stand in the error for 0s, which others can't see. Default 1 ms, and no most.
	least, most time.Duration
}

// String implements pflag.Value; it is the default that the help shows.
func (f durationFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return span(*f.to)
}

// Type implements pflag.Value; it is the flag's argument in the help.
func (f durationFlag) Type() string { return "duration" }

// Set implements pflag.Value.
func (f durationFlag) Set(text string) error {
	if f.none && text == "none" {
		*f.to = duly.None
		return nil
	}
	d, err := duly.ParseDuration(text)
	switch {
	case err != nil:
		return misusef("it %s", fault(err))
	case d < 0: // −1 is None, and nothing else that is negative means anything
		return misusef("it can't be negative")
	case d == 0 && !f.zero: // in a Job it would mean the queue's default
		return misusef("it must be %s", f.bounds())
	}
	*f.to = d
	return nil
}

func (f durationFlag) bounds() string {
	least := duly.FormatDuration(max(f.least, time.Millisecond))
	if f.most == 0 {
		return "at least " + least
	}
	return "between " + least + " and " + duly.FormatDuration(f.most)
}

// countFlag is a number from 1 on.
type countFlag struct {
	to   *int
	none bool // "none" may be given
}

// String implements pflag.Value.
func (f countFlag) String() string {
	switch {
	case f.to == nil || *f.to == 0:
		return ""
	case *f.to == duly.None:
		return "none"
	}
	return strconv.Itoa(*f.to)
}

// Type implements pflag.Value.
func (f countFlag) Type() string { return "n" }

// Set implements pflag.Value.
func (f countFlag) Set(text string) error {
	if f.none && text == "none" {
		*f.to = duly.None
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 { // in a Job, 0 would mean the queue's default
		if f.none {
			return misusef("write a number from 1 on, or none")
		}
		return misusef("write a number from 1 on")
	}
	*f.to = n
	return nil
}

// timeFlag is an absolute moment.
type timeFlag struct {
	to    *time.Time
	local *time.Location
}

// String implements pflag.Value.
func (f timeFlag) String() string { return "" }

// Type implements pflag.Value.
func (f timeFlag) Type() string { return "time" }

// Set implements pflag.Value.
func (f timeFlag) Set(text string) error {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		*f.to = t
		return nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, f.local); err == nil {
			*f.to = t
			return nil
		}
	}
	return misusef("write it like 2030-12-24T18:00:00Z, or 2030-12-24T18:00 in this machine's zone")
}

// headersFlag gathers headers written NAME=VALUE.
type headersFlag struct{ to *map[string]string }

// String implements pflag.Value.
func (f headersFlag) String() string { return "" }

// Type implements pflag.Value.
func (f headersFlag) Type() string { return "name=value" }

// Set implements pflag.Value.
func (f headersFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return misusef("write it like name=value")
	}
	if *f.to == nil {
		*f.to = map[string]string{}
	}
	(*f.to)[name] = value
	return nil
}

// durationVar adds a flag for a duration from 1 ms on.
func durationVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var(durationFlag{to: to}, name, usage)
}

// leaseVar adds the flag for a lease.
func leaseVar(f *pflag.FlagSet, to *time.Duration, usage string) {
	f.Var(durationFlag{to: to, least: duly.MinLease, most: duly.MaxLease}, "lease", usage)
}

// spanVar adds a flag for a duration from 1 ms on, or none.
func spanVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var(durationFlag{to: to, none: true}, name, usage+", or none")
}

// countVar adds a flag for a number from 1 on.
func countVar(f *pflag.FlagSet, to *int, name, usage string) {
	f.Var(countFlag{to: to}, name, usage)
}

// countsFlag is a flag for numbers from 1 on, with commas between them.
type countsFlag struct{ to *[]int }

// String implements pflag.Value.
func (f countsFlag) String() string { return "" }

// Type implements pflag.Value.
func (f countsFlag) Type() string { return "sizes" }

// Set implements pflag.Value.
func (f countsFlag) Set(text string) error {
	var all []int
	for one := range strings.SplitSeq(text, ",") {
		var n int
		if err := (countFlag{to: &n}).Set(one); err != nil {
			return err
		}
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	*f.to = all
	return nil
}

// boundVar adds a flag for a number from 1 on, or none.
func boundVar(f *pflag.FlagSet, to *int, name, usage string) {
	f.Var(countFlag{to: to, none: true}, name, usage+", or none")
}

// optional is a flag that makes a difference by being given, whatever its
// value: nil until then.
type optional[T any] struct {
	to    **T
	typ   string
	parse func(text string) (T, error)
}

// String implements pflag.Value.
func (f optional[T]) String() string { return "" }

// Type implements pflag.Value.
func (f optional[T]) Type() string { return f.typ }

// Set implements pflag.Value.
func (f optional[T]) Set(text string) error {
	v, err := f.parse(text)
	if err == nil {
		*f.to = &v
	}
	return err
}

// delayVar adds a flag for a delay whose absence is not zero.
func delayVar(f *pflag.FlagSet, to **time.Duration, name, usage string) {
	f.Var(optional[time.Duration]{to, "duration", func(text string) (d time.Duration, err error) {
		err = durationFlag{to: &d, zero: true}.Set(text)
		return d, err
	}}, name, usage)
}

// renamed accepts the old name of a flag too. The help does not show it.
func renamed(f *pflag.FlagSet, old, now string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == old {
			name = now
		}
		return pflag.NormalizedName(name)
	})
}

// anyGiven tells whether one of the command's own flags was given.
func anyGiven(cmd *cobra.Command) (given bool) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { given = given || f.Changed })
	return given
}
