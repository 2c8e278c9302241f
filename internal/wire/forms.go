package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// Form is the JSON of a request or an answer whose value is a T.
type Form[T any] func(f *fields, v *T)

// Append appends the JSON of a value.
func (form Form[T]) Append(dst []byte, v T) []byte {
	f := writer(dst)
	form(f, &v)
	return f.end()
}

// ReadRequest reads a request strictly.
func (form Form[T]) ReadRequest(text string) (v T, err error) {
	err = readForm(text, strict, func(f *fields) { form(f, &v) })
	return v, err
}

// ReadAnswer reads an answer leniently.
func (form Form[T]) ReadAnswer(text string) (v T, err error) {
	err = readForm(text, lenient, func(f *fields) { form(f, &v) })
	return v, err
}

// The forms of producers and workers. Pushes and settles have separate functions, and so does
// reading most of the other forms.
var (
	PushForm      = Form[Items[duly.Job]]((*fields).push)
	PushedForm    = Form[[]duly.PushResult]((*fields).pushed)
	PushOneForm   = Form[duly.Job]((*fields).pushOne)
	PushedOneForm = Form[duly.PushResult]((*fields).pushedOne)

	ReserveForm    = Form[Reserve]((*fields).reserve)
	DeliveriesForm = Form[[]duly.Delivery]((*fields).deliveries)
	WaitForm       = Form[duly.WaitParams]((*fields).wait)
	ReadyForm      = Form[bool]((*fields).ready)
	SettleForm     = Form[Items[duly.SettleRequest]]((*fields).settle)
	ExtendForm     = Form[Extend]((*fields).extend)
	// ResultsForm answers a settle, an extend, and a call on jobs by IDs: the error of each item, nil for success.
	ResultsForm = Form[[]error]((*fields).results)

	CanceledAskForm = Form[CanceledAsk]((*fields).canceledAsk)
	CanceledForm    = Form[Canceled]((*fields).canceled)
)

// The forms of queues and their jobs.
var (
	JobForm    = Form[duly.JobInfo](func(f *fields, j *duly.JobInfo) { f.info(j, true) })
	JobsForm   = Form[duly.ListPage](func(f *fields, p *duly.ListPage) { f.jobs(p, true) })
	FoundForm  = Form[contract.Found]((*fields).foundJobs)
	UpdateForm = Form[duly.Update]((*fields).update)
	// ExplainForm has what holds a job back.
	ExplainForm = Form[contract.Explanation]((*fields).explanation)

	QueueForm  = Form[Queue]((*fields).queue)
	QueuesForm = Form[contract.SurveyPage]((*fields).survey)
	// ConfigForm is a patch of a queue's configuration, without Paused.
	ConfigForm = Form[duly.QueueConfig]((*fields).config)

	RequeueForm  = Form[duly.RequeueParams]((*fields).requeue)
	RequeuedForm = Form[[]duly.RequeueResult]((*fields).requeued)
	PurgeForm    = Form[Purge]((*fields).purge)
	// PurgedForm has the number of deleted jobs.
	PurgedForm     = Form[int]((*fields).purged)
	DeleteJobsForm = Form[DeleteJobs]((*fields).deleteJobs)
	GetJobsForm    = Form[GetJobs]((*fields).getJobs)
	GotJobsForm    = Form[[]contract.JobResult](func(f *fields, r *[]contract.JobResult) { f.gotJobs(r, true) })
	// PromoteJobsForm has the IDs of the jobs.
	PromoteJobsForm = Form[[]string]((*fields).promoteJobs)
)

// The forms of topics and their groups.
var (
	PublishForm   = Form[Items[duly.Message]]((*fields).publish)
	PublishedForm = Form[[]duly.PublishResult]((*fields).published)
	EntriesForm   = Form[contract.ReadPage]((*fields).entries)

	DelayedForm        = Form[contract.DelayedPage](func(f *fields, p *contract.DelayedPage) { f.delayed(p, true) })
	DelayedMessageForm = Form[duly.Message](func(f *fields, m *duly.Message) { f.delayedMessage(m, true) })

	TopicForm       = Form[Topic]((*fields).topic)
	TopicsForm      = namesForm("Topics", "topics", "Name")
	TopicConfigForm = Form[duly.TopicConfig]((*fields).topicConfig)
	// TrimmedForm reports whether a trim ended at its limit.
	TrimmedForm = Form[bool]((*fields).trimmed)

	GroupsForm = namesForm("Groups", "groups", "Name")
	FromForm   = Form[duly.From]((*fields).from)
	// GroupCreatedForm reports whether the group existed.
	GroupCreatedForm = Form[bool]((*fields).groupCreated)
	SeekForm         = Form[duly.From]((*fields).seek)
	SeekedForm       = Form[contract.SeekResult]((*fields).seeked)
)

// The forms of schedules.
var (
	// ScheduleForm is a schedule without its name, which the path has.
	ScheduleForm     = Form[duly.Schedule]((*fields).scheduleSettings)
	SchedulePutForm  = Form[duly.SchedulePut]((*fields).schedulePut)
	ScheduleInfoForm = Form[duly.ScheduleInfo]((*fields).scheduleInfo)
	SchedulesForm    = Form[duly.SchedulePage]((*fields).schedules)
)

// The forms of HTTP push.
var (
	TargetForm         = Form[contract.PushTarget]((*fields).target)
	TargetsForm        = Form[TargetPage]((*fields).targets)
	TargetSettingsForm = Form[contract.PushTargetSettings]((*fields).targetSettings)
	PushHostsForm      = Form[[]contract.PushHost]((*fields).pushHosts)
	PushSecretForm     = Form[contract.PushSecret]((*fields).pushSecret)
	PushRotateForm     = Form[contract.PushRotation]((*fields).pushRotate)
	PushTestForm       = Form[contract.PushTest]((*fields).pushTest)
)

// The forms of bulk operations.
var (
	NewOperationForm = Form[contract.NewOperation]((*fields).newOperation)
	OperationForm    = Form[contract.Operation]((*fields).operation)
	OperationsForm   = Form[OperationPage]((*fields).operations)
)

// The forms of the admin address, and of errors.
var (
	// CheckForm says whether to repair.
	CheckForm     = Form[bool]((*fields).check)
	CheckLineForm = Form[CheckLine]((*fields).checkLine)
	ReportForm    = Form[contract.CheckReport]((*fields).report)

	NewTokenForm   = Form[contract.Token]((*fields).newToken)
	MadeTokenForm  = Form[Token]((*fields).madeToken)
	TokensForm     = Form[contract.TokenPage]((*fields).tokens)
	LimitTokenForm = Form[contract.Limits](func(f *fields, l *contract.Limits) { f.limitToken(l, new(bool)) })

	NamespacesForm = namesForm("Namespaces", "namespaces", "Namespace")
	PoolsForm      = Form[[]contract.PoolState]((*fields).pools)
	MoveForm       = Form[contract.MoveState]((*fields).move)
	MovesForm      = Form[[]contract.MoveState]((*fields).moves)
	MovingForm     = Form[Moving]((*fields).moving)
	// PlaceForm has the pool for a namespace.
	PlaceForm = Form[string]((*fields).place)
	// LoginCodeForm is a new login code of the dashboard.
	LoginCodeForm = Form[LoginCode]((*fields).loginCode)

	HealthForm  = Form[Health]((*fields).health)
	ProblemForm = Form[Problem]((*fields).problem)
)
