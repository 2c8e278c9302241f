package wire

import "github.com/dulymq/duly"

// The forms of requests and answers.
var (
	PushForm      Form = func(f *fields) { f.push(new(Items[duly.Job])) }
	PushedForm    Form = func(f *fields) { f.pushed(new([]duly.PushResult)) }
	PushOneForm   Form = func(f *fields) { f.pushOne(new(duly.Job)) }
	PushedOneForm Form = func(f *fields) { f.pushedOne(new(duly.PushResult)) }

	ReserveForm     Form = func(f *fields) { f.reserve(new(Reserve)) }
	DeliveriesForm  Form = func(f *fields) { f.deliveries(new([]duly.Delivery)) }
	WaitForm        Form = func(f *fields) { f.wait(new(duly.WaitParams)) }
	ReadyForm       Form = func(f *fields) { f.ready(new(bool)) }
	CanceledAskForm Form = func(f *fields) { f.canceledAsk(new(CanceledAsk)) }
	CanceledForm    Form = func(f *fields) { f.canceled(new(Canceled)) }
	SettleForm      Form = func(f *fields) { f.settle(new(Items[duly.Outcome])) }
	ExtendForm      Form = func(f *fields) { f.extend(new(Extend)) }
	ResultsForm     Form = func(f *fields) { f.results(new([]error)) }

	JobForm      Form = func(f *fields) { f.info(new(duly.JobInfo), true) }
	JobsForm     Form = func(f *fields) { f.jobs(new(duly.ListPage), true) }
	UpdateForm   Form = func(f *fields) { f.update(new(duly.Update)) }
	QueueForm    Form = func(f *fields) { f.queue(new(Queue)) }
	QueuesForm   Form = func(f *fields) { f.survey(new(duly.SurveyPage)) }
	ConfigForm   Form = func(f *fields) { f.config(new(duly.QueueConfig)) }
	RequeueForm  Form = func(f *fields) { f.requeue(new(duly.RequeueParams)) }
	RequeuedForm Form = func(f *fields) { f.requeued(new([]duly.RequeueResult)) }
	PurgeForm    Form = func(f *fields) { f.purge(new(Purge)) }
	PurgedForm   Form = func(f *fields) { f.purged(new(int)) }

	PublishForm        Form = func(f *fields) { f.publish(new(Items[duly.Message])) }
	PublishedForm      Form = func(f *fields) { f.published(new([]duly.PublishResult)) }
	EntriesForm        Form = func(f *fields) { f.entries(new(duly.ReadPage)) }
	DelayedForm        Form = func(f *fields) { f.delayed(new(duly.DelayedPage), true) }
	DelayedMessageForm Form = func(f *fields) { f.delayedMessage(new(duly.Message), true) }
	TopicForm          Form = func(f *fields) { f.topic(new(Topic)) }
	TopicsForm         Form = func(f *fields) { f.namesForm("Topics", "topics", "Name") }
	TopicConfigForm    Form = func(f *fields) { f.topicConfig(new(duly.TopicConfig)) }
	GroupsForm         Form = func(f *fields) { f.namesForm("Groups", "groups", "Name") }
	FromForm           Form = func(f *fields) { f.from(new(duly.From)) }
	GroupCreatedForm   Form = func(f *fields) { f.groupCreated(new(duly.PushOutcome)) }
	SeekForm           Form = func(f *fields) { f.seek(new(duly.From)) }
	SeekedForm         Form = func(f *fields) { f.seeked(new(duly.SeekResult)) }
	TrimmedForm        Form = func(f *fields) { f.trimmed(new(bool)) }

	TargetForm         Form = func(f *fields) { f.target(new(Target)) }
	TargetsForm        Form = func(f *fields) { f.targets(new([]Target), new(string)) }
	TargetSettingsForm Form = func(f *fields) { f.targetSettings(new(TargetSettings)) }
	PushHostsForm      Form = func(f *fields) { f.pushHosts(new([]PushHost)) }
	PushSecretForm     Form = func(f *fields) { f.pushSecret(new(PushSecret)) }
	PushRotateForm     Form = func(f *fields) { f.pushRotate(new(PushRotate)) }
	PushTestForm       Form = func(f *fields) { f.pushTest(new(PushTest)) }

	CheckForm      Form = func(f *fields) { f.check(new(bool)) }
	CheckLineForm  Form = func(f *fields) { f.checkLine(new(CheckLine)) }
	NewTokenForm   Form = func(f *fields) { f.newToken(new(duly.Token)) }
	MadeTokenForm  Form = func(f *fields) { f.madeToken(new(Token)) }
	TokensForm     Form = func(f *fields) { f.tokens(new(duly.TokenPage)) }
	LimitTokenForm Form = func(f *fields) { f.limitToken(new(duly.Limits), new(bool)) }
	NamespacesForm Form = func(f *fields) { f.namesForm("Namespaces", "namespaces", "Namespace") }
	PoolsForm      Form = func(f *fields) { f.pools(new([]duly.PoolState)) }
	MoveForm       Form = func(f *fields) { f.move(new(duly.MoveState)) }
	MovesForm      Form = func(f *fields) { f.moves(new([]duly.MoveState)) }
	MovingForm     Form = func(f *fields) { f.moving(new(string), new(string)) }
	PlaceForm      Form = func(f *fields) { f.place(new(string)) }

	HealthForm  Form = func(f *fields) { f.health(new(Health)) }
	ProblemForm Form = func(f *fields) { f.problem(new(problem)) }
)
