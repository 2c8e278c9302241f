package wire

import (
	"github.com/dulymq/duly/contract"
)

func (f *fields) check(repair *bool) {
	f.request("Check")
	f.bool("repair", repair, always, "Repair what the check finds. Default: false.")
}

// ReadCheck reads the request of a check.
func ReadCheck(text string) (repair bool, err error) {
	if text == "" {
		return false, nil
	}
	return CheckForm.ReadRequest(text)
}

// CheckLine is one line of a check's answer. A line has the progress. The last line has the report
// or an error.
type CheckLine struct {
	// Done is the number of jobs and messages checked so far, and Total their number or 0 if it is
	// unknown.
	Done, Total int64
	Report      *contract.CheckReport
	Err         error
}

func (f *fields) checkLine(l *CheckLine) {
	f.answer("CheckLine")
	if f.task != writing || l.Err == nil && l.Report == nil {
		f.int64("done", &l.Done, always, "", "Progress: the jobs and messages checked so far.")
		f.int64("total", &l.Total, always, "",
			"Progress: the number of jobs and messages, as far as it is known.")
	}
	pointer(f, "report", &l.Report, "The last line of a check.", (*fields).report)
	f.error(&l.Err, "The last line of a check that failed.")
}

// AppendCheckLine writes a line with its newline.
func AppendCheckLine(dst []byte, l CheckLine) []byte {
	f := writer(dst)
	f.checkLine(&l)
	return append(f.end(), '\n')
}

func (f *fields) report(report *contract.CheckReport) {
	f.answer("Report")
	f.integer("jobs", &report.Jobs, "The jobs that were checked.")
	f.integer("messages", &report.Messages, "The messages that were checked: held, dead, and delayed.")
	f.int("repaired", &report.Repaired, required, "", "The faults that were repaired.")
	list(f, "faults", &report.Faults, required, "The faults that were found.", (*fields).fault)
}

func (f *fields) fault(v *contract.Fault) {
	f.answer("Fault")
	f.text("kind", &v.Kind, required, "", "The stable name of the fault.")
	f.text("namespace", &v.Queue.Namespace, required, "", "The namespace of the queue.")
	f.text("queue", &v.Queue.Name, required, "", "The queue's name.")
	f.text("id", &v.ID, optional, "", "The job's ID.")
	f.text("detail", &v.Detail, optional, "", "A description of the fault.")
	f.bool("repaired", &v.Repaired, required, "Whether the check repaired it.")
}
