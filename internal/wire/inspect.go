package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// names declares a page of names. plural is the name of the list, and form the name of its objects' form.
func (f *fields) names(plural, form string, p *duly.NamePage) {
	list(f, plural, &p.Names, required, "The "+plural+" of this page, by name.", func(f *fields, name *string) {
		f.answer(form)
		f.text("name", name, required, "", "The name.")
	})
	f.cursor(&p.Next)
}

// namesForm returns the form of a page of names.
func namesForm(name, plural, form string) Form[duly.NamePage] {
	return func(f *fields, p *duly.NamePage) {
		f.answer(name)
		f.names(plural, form, p)
	}
}

// AppendNames writes a page of names in the list plural: queues, namespaces.
func AppendNames(dst []byte, plural string, p duly.NamePage) []byte {
	f := writer(dst)
	f.names(plural, "", &p)
	return f.end()
}

// ReadNames reads a page of names in the list plural.
func ReadNames(text, plural string) (p duly.NamePage, err error) {
	// The name of the list is a parameter, so there is no fixed form for it.
	err = readForm(text, lenient, func(f *fields) { f.names(plural, "", &p) })
	return p, err
}

// survey declares a page of queues with their statistics. A page of queue names has the same form without
// statistics.
func (f *fields) survey(p *contract.SurveyPage) {
	f.answer("Queues")
	list(f, "queues", &p.Queues, required, "The queues of this page, by name.", (*fields).surveyed)
	f.cursor(&p.Next)
}

func (f *fields) surveyed(q *contract.QueueStats) {
	f.answer("ListedQueue")
	f.text("name", &q.Name, required, "", "The queue's name.")

	// Zero statistics would look like an empty queue, so a queue with an error has none.
	if f.task != writing || q.Err == nil {
		f.nested("stats", false, optional, "With stats=true: sizes and counters.", func() { f.stats(&q.Stats) })
		f.throttle(&q.Throttle)
	}
	f.error(&q.Err, "Instead of stats: why this queue could not be read.")
}

// throttle has the limits of a queue's deliveries. A limit that is not set is absent.
func (f *fields) throttle(t *contract.Throttle) {
	f.bool("paused", &t.Paused, optional, "With stats=true: true if the queue is paused.")
	countOrNone(f, "max_leased", &t.MaxLeased, optional,
		"With stats=true: the most jobs leased at once. Absent if there is no bound.")
	f.rate(&t.Rate.PerSecond, optional, "With stats=true: deliveries per second. Absent if there is no bound.")
	f.count("burst", &t.Rate.Burst, optional, "",
		"With stats=true: deliveries that may come at once, if that was set.")
}

// ReadSurvey reads a page of queues with their statistics.
func ReadSurvey(text string) (p contract.SurveyPage, err error) {
	p, err = QueuesForm.ReadAnswer(text)
	for i := range p.Queues {
		q := &p.Queues[i]
		// A queue with an error has no statistics, so its limits are unknown.
		if q.Err != nil {
			q.Throttle = contract.Throttle{}
			continue
		}

		// An absent limit means that there is none.
		if q.Throttle.MaxLeased == 0 {
			q.Throttle.MaxLeased = duly.None
		}
		if q.Throttle.Rate.PerSecond == 0 {
			q.Throttle.Rate.PerSecond = duly.None
		}
	}
	return p, err
}
