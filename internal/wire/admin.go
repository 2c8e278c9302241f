package wire

import (
	"github.com/dulymq/duly"
)

// ReadCheck reads the request of a check.
func ReadCheck(text string, mode Mode) (repair bool, err error) {
	if text == "" {
		return false, nil
	}
	err = parse(text, mode, func(r *reader) {
		for key := range r.object {
			if key == "repair" {
				repair = r.boolean(key)
			} else {
				r.unknown(key)
			}
		}
	})
	return repair, err
}

// AppendCheck writes the request of a check.
func AppendCheck(dst []byte, repair bool) []byte {
	o := begin(dst)
	o.bool("repair", repair)
	return o.end()
}

// CheckLine is one line of a check's answer: progress while Report and Err are
// nil, else the last line.
type CheckLine struct {
	// Done and Total are jobs and messages looked at, and their number as far as known.
	Done, Total int64
	Report      *duly.CheckReport
	Err         error
}

// AppendCheckLine writes a line with its newline.
func AppendCheckLine(dst []byte, l CheckLine) []byte {
	o := begin(dst)
	switch {
	case l.Err != nil:
		o.error(l.Err)
	case l.Report != nil:
		o.key("report")
		o.dst = AppendReport(o.dst, l.Report)
	default:
		o.int("done", l.Done)
		o.int("total", l.Total)
	}
	return append(o.end(), '\n')
}

// AppendReport writes what a check has found.
func AppendReport(dst []byte, report *duly.CheckReport) []byte {
	o := begin(dst)
	o.int("jobs", report.Jobs)
	o.int("messages", report.Messages)
	o.int("repaired", int64(report.Repaired))
	list(&o, "faults", report.Faults, func(dst []byte, f *duly.Fault) []byte {
		o := begin(dst)
		o.string("kind", f.Kind)
		o.string("namespace", f.Queue.Namespace)
		o.string("queue", f.Queue.Name)
		o.text("id", f.ID)
		o.text("detail", f.Detail)
		o.bool("repaired", f.Repaired)
		return o.end()
	})
	return o.end()
}

// ReadCheckLine reads a line of a check's answer.
func ReadCheckLine(text string) (l CheckLine, err error) {
	err = parse(text, Lenient, func(r *reader) {
		for key := range r.object {
			switch key {
			case "done":
				l.Done = r.int(key)
			case "total":
				l.Total = r.int(key)
			case "report":
				l.Report = &duly.CheckReport{}
				r.report(l.Report)
			case "error":
				l.Err = r.errorValue()
			default:
				r.unknown(key)
			}
		}
	})
	return l, err
}

func (r *reader) report(report *duly.CheckReport) {
	for key := range r.object {
		switch key {
		case "jobs":
			report.Jobs = r.int(key)
		case "messages":
			report.Messages = r.int(key)
		case "repaired":
			report.Repaired = int(r.int(key))
		case "faults":
			for range r.array {
				report.Faults = append(report.Faults, r.fault())
			}
		default:
			r.unknown(key)
		}
	}
}

func (r *reader) fault() (f duly.Fault) {
	for key := range r.object {
		switch key {
		case "kind":
			f.Kind = r.string(key)
		case "namespace":
			f.Queue.Namespace = r.string(key)
		case "queue":
			f.Queue.Name = r.string(key)
		case "id":
			f.ID = r.string(key)
		case "detail":
			f.Detail = r.string(key)
		case "repaired":
			f.Repaired = r.boolean(key)
		default:
			r.unknown(key)
		}
	}

	return f
}
