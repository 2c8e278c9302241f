package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/wire"
)

func checkCommand(a *app) *cobra.Command {
	var params contract.CheckParams
	cmd := a.command("check", "Check the storage, and repair it",
		`Compares every job of every namespace with every index while the engine runs. Fails if faults remain. For a server
it needs the admin address. For Redis, it also prints warnings about settings that may lose jobs on standard error.`,
		`  duly check
  duly check --repair
  duly check --url sqlite:backup.db --json`,
		func(ctx context.Context, p *printer, _ []string) error {
			// A check is the command that an operator runs to find unsafe settings.
			a.warnings = warnAlways
			return a.withAdmin(ctx, func(admin Admin, _ endpoint) error {
				bar := a.newProgress("check", 0)
				params.Progress = func(done, total int64) { bar.set(done, total, 0) }
				report, err := admin.Check(ctx, params)
				bar.end()
				if err != nil {
					return err
				}
				return a.printCheck(p, &report)
			})
		})

	cmd.Args = noArgs
	cmd.Flags().BoolVar(&params.Repair, "repair", false, "repair the faults")
	return cmd
}

// printCheck prints a report. It returns an error if faults remain.
func (a *app) printCheck(p *printer, report *contract.CheckReport) error {
	remaining := len(report.Faults) - report.Repaired
	if p.json {
		p.line(wire.ReportForm.Append(nil, *report))
	} else {
		p.printFaults(report.Faults)
		checked := plural(report.Jobs, "job")
		if report.Messages > 0 {
			checked += " and " + plural(report.Messages, "message")
		}
		p.printf("checked %s, found %s", checked, plural(int64(len(report.Faults)), "fault"))
		if report.Repaired > 0 {
			p.printf(", repaired %s", countText(int64(report.Repaired)))
		}
		p.printf("\n")
	}

	if remaining == 0 {
		return nil
	}
	// The report must precede the error, which goes to another stream.
	if err := p.flush(); err != nil {
		return err
	}
	err := contract.Errorf(duly.CodeCorrupt, "the storage has %s", plural(int64(remaining), "unrepaired fault"))
	return withHint(err, "to repair: %s check --repair", a.program())
}

func (p *printer) printFaults(faults []contract.Fault) {
	t := p.newTable("FAULT", "QUEUE", "JOB", "REPAIRED", "DETAIL")
	for _, f := range faults {
		repaired := cell{"no", red}
		if f.Repaired {
			repaired = cell{"yes", green}
		}
		queue := ""

		// A fault of a namespace or a topic has no queue.
		if f.Queue != (duly.QueueRef{}) {
			queue = f.Queue.String()
		}
		t.add(txt(f.Kind), txt(queue), txt(f.ID), repaired, txt(f.Detail))
	}
	t.flush()
}
