package cli

import (
	"context"
	"time"

	_ "time/tzdata" // embeds the time zones, so that they exist on every host, as in the engines

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/schedule"
)

// maxTicks bounds the ticks that a command prints.
const maxTicks = 1000

// nextFlags are the flags of schedule next.
type nextFlags struct {
	spec, zone string
	from       time.Time
	count      int
}

func scheduleNextCommand(a *app) *cobra.Command {
	flags := nextFlags{count: 10}
	cmd := a.command("next [QUEUE NAME]", "Print the next ticks of a schedule or of an expression",
		`Prints the ticks in the zone of the schedule and in UTC. With --spec it needs no store.`,
		`  duly schedule next reports nightly --count 5
  duly schedule next --spec '30 2 * * *' --zone Europe/Berlin --from 2026-03-28`,
		func(ctx context.Context, p *printer, args []string) error {
			if flags.from.IsZero() {
				flags.from = p.now()
			}
			if flags.spec != "" {
				return p.ticks(&duly.Schedule{Name: "next", Spec: flags.spec, Zone: flags.zone}, &flags)
			}
			return a.withSchedules(ctx, false, func(s *session, schedules duly.Scheduler) error {
				info, err := schedules.GetSchedule(ctx, s.queue(args[0]), args[1])
				if err != nil {
					return a.missingSchedule(err, args[0])
				}
				if info.Paused {
					a.notePaused()
				}
				return p.ticks(&info.Schedule, &flags)
			})
		})

	cmd.Args = func(cmd *cobra.Command, args []string) error {
		// The number of arguments depends on --spec, which takesArgs cannot express.
		switch {
		case flags.spec == "" && len(args) != 2:
			return usageErrorf("%s needs QUEUE and NAME, or --spec", cmd.CommandPath())
		case flags.spec != "" && len(args) > 0:
			return usageErrorf("%s accepts QUEUE and NAME, or --spec, but not both", cmd.CommandPath())
		case flags.count > maxTicks:
			return usageErrorf("--count is %d, may be at most %d", flags.count, maxTicks)
		}
		return nil
	}
	cmd.ValidArgsFunction = a.completeQueues(1)

	f := cmd.Flags()
	f.StringVar(&flags.spec, "spec", "", "the `expression`, instead of a schedule")
	f.StringVar(&flags.zone, "zone", "", "time `zone` of --spec, like Europe/Berlin (default UTC)")
	f.Var(dayFlag{timeFlag{&flags.from, time.Local}}, "from", "ticks after this time or day (default: now)")
	countVar(f, &flags.count, "count", "maximum number of ticks")
	return cmd
}

// notePaused prints that the ticks of a schedule do not fire.
func (a *app) notePaused() {
	if a.json {
		a.errorLine([]byte(`{"paused":true}`))
		return
	}
	a.note("paused: these ticks do not fire")
}

// dayFlag is a time, or a day, which begins at midnight.
type dayFlag struct{ timeFlag }

// Set implements pflag.Value.
func (f dayFlag) Set(text string) error {
	// timeFlag refuses a day without a time.
	if day, err := time.ParseInLocation(time.DateOnly, text, f.local); err == nil {
		*f.to = day
		return nil
	}
	return f.timeFlag.Set(text)
}

// ticks prints the next ticks of a schedule.
func (p *printer) ticks(s *duly.Schedule, flags *nextFlags) error {
	if err := contract.ValidateSchedule(duly.Q("next"), s, 0); err != nil {
		return err
	}
	timing, err := schedule.Timing(s)
	if err != nil {
		return err
	}

	t := p.newTable("TICK", "UTC", "")
	tick, ok := timing.Next(flags.from)

	// The count bounds the loop, because most expressions have no last tick.
	for n := 0; ok && n < flags.count; n++ {
		if p.json {
			if err := p.value(map[string]string{"tick": stamp(tick)}); err != nil {
				return err
			}
		} else {
			t.add(txt(tick.In(timing.Zone).Format("Mon 2006-01-02 15:04:05 -07:00")), txt(stamp(tick)), txt(relative(tick, p.now())))
		}
		tick, ok = timing.Next(tick)
	}
	t.flush()
	return nil
}
