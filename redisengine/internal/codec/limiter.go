package codec

import (
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// AddLimiter adds the limiter of a shard to the statistics of its queue: the factor, which is empty
// if the limits do not adapt, and 1 if the shard is in probing.
func AddLimiter(st *duly.Stats, factor, probing *rueidis.RedisMessage) {
	f, err := strconv.ParseFloat(Text(factor), 64)
	if err != nil {
		return
	}
	if st.Factor == 0 || f < st.Factor {
		st.Factor = f
	}
	st.Probing += int(Integer(probing))
}

// AddTokens adds the tokens of a shard to the statistics of its queue: how many deliveries the rate
// allows, -1 without a rate, and when it allows the next one.
func AddTokens(st *duly.Stats, tokens, next *rueidis.RedisMessage) {
	contract.AddTokens(st, Integer(tokens), clock.FromMilli(Integer(next)))
}
