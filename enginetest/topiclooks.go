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
