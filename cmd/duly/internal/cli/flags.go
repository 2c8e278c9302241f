package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dulymq/duly"
)

// flagParseError converts an error of a flag to a usage error.
func flagParseError(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return usageError{err.Error()}
	}
	name, value := bad.GetFlag().Name, bad.GetValue()
	if number := new(strconv.NumError); errors.As(err, &number) { // its text is about strconv
		return usageErrorf("--%s cannot be %q: write a whole number%s", name, value, numberBounds[name])
	}
	return usageErrorf("--%s cannot be %q: %v", name, value, bad.Unwrap())
}

// numberBounds are the bounds of flags that the contract validates.
var numberBounds = map[string]string{
	"priority": fmt.Sprintf(" between %d and %d", duly.MinPriority, duly.MaxPriority),
}

// problemOf returns the problem of an error of one field.
func problemOf(err error) string {
	var e *duly.Error
	if errors.As(err, &e) && len(e.Fields) == 1 {
		return e.Fields[0].Problem
	}
	return err.Error()
}

// noArgs validates the arguments of a command without arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("%s accepts no arguments, but got %q", cmd.CommandPath(), args[0])
	}
	return nil
}

// takesArgs validates the number of arguments, and that only a body is empty. names are the names in the help. The last
// one contains "…" if it may be repeated, and is in brackets if it is optional.
func takesArgs(names ...string) cobra.PositionalArgs {
	lowest, highest := len(names), len(names)
	last := names[len(names)-1]
	if strings.HasPrefix(last, "[") {
		lowest--
	}
	if strings.Contains(last, "…") {
		highest = -1
	}

	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < lowest:
			return usageErrorf("%s needs %s", cmd.CommandPath(), strings.Trim(names[len(args)], "[]…"))
		case highest >= 0 && len(args) > highest:
			return usageErrorf("%s accepts only %s, but got %q too (quote arguments with spaces)",
				cmd.CommandPath(), strings.Join(names, " "), args[highest])
		}

		// A shell turns an unset variable into an empty argument.
		for i, arg := range args {
			if name := strings.Trim(names[min(i, len(names)-1)], "[]…"); arg == "" && name != "BODY" {
				return usageErrorf("%s is empty; %s needs one", name, cmd.CommandPath())
			}
		}
		return nil
	}
}

// durationFlag is a duration in the format of the wire.
type durationFlag struct {
	to   *time.Duration
	none bool // whether "none" is accepted
	zero bool // whether 0s is accepted
	// min appears in the errors. The contract validates it, but 0 in a job means the default.
	// Default: 1 ms, no maximum.
	min, max time.Duration
}

// String implements pflag.Value. The help shows it as the default.
func (f durationFlag) String() string {
	if f.to == nil || *f.to == 0 {
		return ""
	}
	return durationText(*f.to)
}

// Type implements pflag.Value. The help shows it as the argument.
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
		return usageErrorf("it %s", problemOf(err))
	// -1 would mean None, and in a job 0 would mean the queue's default.
	case d < 0, d == 0 && !f.zero, f.max > 0 && d > f.max:
		return usageErrorf("it must be %s", f.bounds())
	}
	*f.to = d
	return nil
}

func (f durationFlag) bounds() string {
	lowest := duly.FormatDuration(max(f.min, time.Millisecond))
	if f.zero {
		lowest = "0s"
	}
	text := "at least " + lowest
	if f.max > 0 {
		text = "between " + lowest + " and " + duly.FormatDuration(f.max)
	}
	if f.none {
		text += ", or none"
	}
	return text
}

// countFlag is an integer of at least 1.
type countFlag struct {
	to   *int
	none bool // whether "none" is accepted
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
	// On some platforms an int is smaller than the largest bound.
	if most := min(duly.MaxJobsBound, math.MaxInt); n > most || errors.Is(err, strconv.ErrRange) && n > 0 {
		return usageErrorf("it is too large; write a number between 1 and %d", most)
	}
	if err != nil || n < 1 { // in a job, 0 would mean the queue's default
		if f.none {
			return usageErrorf("write a number of at least 1, or none")
		}
		return usageErrorf("write a number of at least 1")
	}
	*f.to = n
	return nil
}

// timeFlag is an absolute time.
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
	// RFC 3339 comes first, because only it has an offset.
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		*f.to = t
		return nil
	}
	for _, layout := range []string{
		"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04",
	} {
		if t, err := time.ParseInLocation(layout, text, f.local); err == nil {
			*f.to = t
			return nil
		}
	}
	return usageErrorf("write it like 2030-12-24T18:00:00Z, or 2030-12-24T18:00 in this machine's time zone")
}

// headersFlag collects headers of the form NAME=VALUE.
type headersFlag struct{ to *map[string]string }

// String implements pflag.Value.
func (f headersFlag) String() string { return "" }

// Type implements pflag.Value.
func (f headersFlag) Type() string { return "name=value" }

// Set implements pflag.Value.
func (f headersFlag) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return usageErrorf("write it like name=value")
	}

	// The map is made late, because nil means that the field is not set.
	if *f.to == nil {
		*f.to = map[string]string{}
	}
	(*f.to)[name] = value
	return nil
}

// kindFlag is the kind of a job.
type kindFlag struct{ to *string }

// String implements pflag.Value.
func (f kindFlag) String() string { return "" }

// Type implements pflag.Value.
func (f kindFlag) Type() string { return "kind" }

// Set implements pflag.Value.
func (f kindFlag) Set(text string) error {
	if duly.ValidateKind(text) != nil { // flagParseError quotes the text, as the problem does
		return usageErrorf("write 1 to 100 of A-Z a-z 0-9 . _ -, and begin with a letter or a digit")
	}
	*f.to = text
	return nil
}

// durationVar adds a flag for a duration of at least 1 ms.
func durationVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var(durationFlag{to: to}, name, usage)
}

// leaseVar adds the flag for a lease.
func leaseVar(f *pflag.FlagSet, to *time.Duration, usage string) {
	f.Var(durationFlag{to: to, min: duly.MinLease, max: duly.MaxLease}, "lease", usage)
}

// optionalDurationVar adds a flag for a duration of at least 1 ms, or none.
func optionalDurationVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var(durationFlag{to: to, none: true}, name, usage+", or none")
}

// countVar adds a flag for an integer of at least 1.
func countVar(f *pflag.FlagSet, to *int, name, usage string) {
	f.Var(countFlag{to: to}, name, usage)
}

// countsFlag is a list of integers of at least 1, separated by commas.
type countsFlag struct{ to *[]int }

// String implements pflag.Value.
func (f countsFlag) String() string { return "" }

// Type implements pflag.Value.
func (f countsFlag) Type() string { return "sizes" }

// Set implements pflag.Value.
func (f countsFlag) Set(text string) error {
	var all []int
	for item := range strings.SplitSeq(text, ",") {
		var n int
		if err := (countFlag{to: &n}).Set(item); err != nil {
			return err
		}

		// A repeated size would be measured twice.
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	*f.to = all
	return nil
}

// optionalCountVar adds a flag for an integer of at least 1, or none.
func optionalCountVar(f *pflag.FlagSet, to *int, name, usage string) {
	f.Var(countFlag{to: to, none: true}, name, usage+", or none")
}

// optional is a flag whose value is nil until it is set.
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

// jobRules are the fields that a job and the defaults of a queue have in common.
type jobRules struct {
	tries, maxStalls   *int
	backoff            *duly.Backoff
	lease, ttl, retain *time.Duration
}

// ruleVars adds the flags for rules. prefix is "default: " for the defaults of a queue.
func ruleVars(f *pflag.FlagSet, prefix string, r jobRules) {
	countVar(f, r.tries, "tries", prefix+"deliveries that may fail before the job is dead")
	optionalCountVar(f, r.maxStalls, "max-stalls", prefix+"leases that may expire before the job is dead")
	f.StringVar((*string)(r.backoff), "backoff", "",
		prefix+"wait after a failure: fixed:5s, exp:1s:1h, or `steps` like 15s,3m,1h")
	leaseVar(f, r.lease, prefix+"how long a delivery holds the job")
	optionalDurationVar(f, r.ttl, "ttl", prefix+"drop the job after waiting this long")
	optionalDurationVar(f, r.retain, "retain", prefix+"keep the finished job and its result this long")
}

// delayVar adds a flag for a delay that is nil until it is set.
func delayVar(f *pflag.FlagSet, to **time.Duration, name, usage string) {
	boundedDelayVar(f, to, 0, name, usage)
}

// boundedDelayVar is like delayVar, with the longest delay. 0 means no bound.
func boundedDelayVar(f *pflag.FlagSet, to **time.Duration, longest time.Duration, name, usage string) {
	f.Var(optional[time.Duration]{to, "duration", func(text string) (d time.Duration, err error) {
		err = durationFlag{to: &d, zero: true, max: longest}.Set(text)
		return d, err
	}}, name, usage)
}

// textFlag is a text that is not empty. A shell turns an unset variable into an empty text.
type textFlag struct {
	to   *string
	kind string // the type in the help
	fix  string // what to write instead of an empty text
}

// String implements pflag.Value.
func (f textFlag) String() string {
	if f.to == nil {
		return ""
	}
	return *f.to
}

// Type implements pflag.Value.
func (f textFlag) Type() string { return f.kind }

// Set implements pflag.Value.
func (f textFlag) Set(text string) error {
	if text == "" {
		return usageErrorf("%s", f.fix)
	}
	*f.to = text
	return nil
}

// textVar adds a flag for a text that is not empty.
func textVar(f *pflag.FlagSet, to *string, name, usage string) {
	f.Var(textFlag{to, "string", "it is empty; leave the flag out, or write a text"}, name, usage)
}

// stateVar adds the flag for the state of jobs. An empty one would mean any state.
func stateVar(cmd *cobra.Command, to *string, usage string) {
	fix := "write one of " + strings.Join(stateNames(), ", ") + ", or leave the flag out"
	cmd.Flags().Var(textFlag{to, "state", fix}, "state", usage)
	completeValues(cmd, "state", stateNames()...)
}

// acceptOldName makes a flag accept its old name too. The help does not show it.
func acceptOldName(f *pflag.FlagSet, old, current string) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == old {
			name = current
		}
		return pflag.NormalizedName(name)
	})
}

// anyFlagSet reports whether one of the command's own flags is set.
func anyFlagSet(cmd *cobra.Command) (set bool) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { set = set || f.Changed })
	return set
}
