package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/wire"
)

func checkCommand(a *app) *cobra.Command {
	var params duly.CheckParams
	cmd := a.command("check", "Compare every job with every index, and mend what is not right",
		`Looks through the whole storage, of every namespace; the engine goes on working meanwhile. Fails if it leaves a fault
behind. A server is asked at its admin address. Of a Redis it also warns, on standard error, of settings that may lose jobs.`,
		`  duly check
  duly check --repair
  duly check --url sqlite:backup.db --json`,
		func(ctx context.Context, p *printer, _ []string) error {
			a.hears = hearAll
			return a.withAdmin(ctx, func(admin Admin, _ place) error {
				bar := a.newProgress("check", 0)
				params.Progress = func(done, total int64) { bar.set(done, total, 0) }
				report, err := admin.Check(ctx, params)
				bar.end()
				if err != nil {
					return err
				}
				return a.checked(p, report)
			})
		})
	cmd.Args = noArgs
	cmd.Flags().BoolVar(&params.Repair, "repair", false, "mend what is found")
	return cmd
}

func (a *app) checked(p *printer, report duly.CheckReport) error {
	left := len(report.Faults) - report.Repaired
	if p.json {
		p.line(wire.ReportForm.Append(nil, report))
	} else {
		p.faults(report.Faults)
		looked := plural(report.Jobs, "job")
		if report.Messages > 0 {
			looked += " and " + plural(report.Messages, "message")
		}
		p.printf("looked at %s, found %s", looked, plural(int64(len(report.Faults)), "fault"))
		if report.Repaired > 0 {
			p.printf(", mended %s", countText(int64(report.Repaired)))
		}
		p.printf("\n")
	}
	if left == 0 {
		return nil
	}
	if err := p.flush(); err != nil {
		return err
	}
	err := duly.Errorf(duly.CodeCorrupt, "the storage has %s that %s not mended", plural(int64(left), "fault"), wasWere(left))
	return advise(err, "mend what can be mended: %s check --repair", a.program())
}

func wasWere(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

func (p *printer) faults(faults []duly.Fault) {
	t := p.newTable("FAULT", "QUEUE", "JOB", "MENDED", "DETAIL")
	for _, f := range faults {
		mended := cell{"no", red}
		if f.Repaired {
			mended = cell{"yes", green}
		}
		queue := ""
		if f.Queue != (duly.QueueRef{}) {
			queue = f.Queue.String()
		}
		t.add(txt(f.Kind), txt(queue), txt(f.ID), mended, txt(f.Detail))
	}
	t.flush()
}
