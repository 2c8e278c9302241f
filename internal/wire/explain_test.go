package wire

import (
	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// fullExplanation returns an explanation that uses every field.
func fullExplanation() contract.Explanation {
	return contract.Explanation{State: duly.StateBlocked, Now: when, Facts: []contract.Fact{
		{Code: contract.FactMaxLeased, At: when, Used: 5, Limit: 5},
		{Code: contract.FactClosed, At: when, Cause: "429"},
		{Code: contract.FactBlocked, At: when, Count: contract.MaxBlocked, More: true,
			Holder: contract.Holder{ID: "a", State: duly.StateLeased, At: when}},
		{Code: "code_of_a_newer_server"},
	}}
}
