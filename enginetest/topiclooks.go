package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

// A call that changes no setting may be the first that notices a drop or a due message.
func retainLooks(s *scene) {
	for name, look := range map[string]func(g *scene){
		"config": func(g *scene) {
			_, err := s.Engine.Config(s.ctx, g.ref())
			s.must("config", err)
		},
		"seek": func(g *scene) {
			future := mustPosition(s, g.send("later")[0])
			future.Ordinal += 10
			_, err := s.log().Seek(s.ctx, g.ref(), duly.FromPosition(future.Position()))
			s.refused("seek to a future position", err, duly.CodeInvalid)
		},
	} {
		x := s.onTopic(name)
		x.configureTopic(duly.TopicConfig{MaxCount: 5, Overflow: duly.OverflowDrop})
		g := x.group("g")
		x.send("held")
		g.delivers("held")
		x.publish(duly.Message{Body: []byte("delayed"), Delay: time.Second})
		x.send("b", "c", "d", "e", "f")
		g.configure(duly.QueueConfig{Defaults: duly.Defaults{MaxStalls: 1}})
		s.Advance(time.Second)

		look(g)
		x.stepTopic()
		st := x.info().Stats
		same(s, "the messages missed after "+name, g.groupStats().Missed, st.Published-st.Messages)
		same(s, "the messages leased after "+name, g.stats().Sizes.Leased, 0)
		same(s, "the lag after "+name, g.groupStats().Lag, st.Messages)
	}
}

// A call that ends the need of messages may leave the trim to the next settle. That settle trims
// them by the setting of its time, so a later change of keep holds none of them.
func retainUntilSettle(s *scene) {
	for name, release := range map[string]func(x, g *scene, d duly.Delivery){
		"destroy": func(x, g *scene, d duly.Delivery) {
			other := x.group("other")
			g.ack(d)
			x.stepTopic()
			s.must("destroy", s.Engine.Destroy(s.ctx, other.ref()))
		},
		"delete": func(_, g *scene, d duly.Delivery) {
			s.must("delete", s.Engine.Delete(s.ctx, g.ref(), d.ID))
		},
	} {
		x := s.onTopic(name)
		g := x.group("g")
		x.send("a", "b", "c")
		ds := g.delivers("a", "b", "c")
		release(x, g, ds[0])

		g.release(ds[1])
		x.configureTopic(duly.TopicConfig{Keep: time.Hour})
		x.stepTopic()
		same(s, "the messages trimmed after "+name, x.info().Stats.Trimmed, 1)
	}
}
