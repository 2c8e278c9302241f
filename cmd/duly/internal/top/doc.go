// Package top is the live view of queues for `duly top`.
//
// A [Sampler] reads the stats of all queues from an engine. A [Model] computes rates from
// the counters of two samples, and [Model.View] draws a table with as many rows as the
// terminal has. The package needs only Queues and Stats of the contract, so it works with
// every URL. If the engine is a [contract.Surveyor], a thousand queues take one request.
//
// # Rates
//
// A rate is the difference of a counter between two samples, divided by the time between
// them on this machine. The first sample has no rates. If a counter has become smaller,
// the queue was destroyed and created again, and its rates are not known until the next
// sample. While the view is frozen it takes no samples. The rates of the first sample
// after that cover the whole time.
//
// # The terminal
//
// The view uses the terminal's alternate screen in raw mode, and restores both when it
// ends. It draws from the top and clears each line to its end, so nothing flickers. It
// truncates lines to the width of the terminal, and leaves out columns that do not fit,
// the least important ones first. The log of the engine would overwrite the view, so it
// comes through [LiveView.Log]: the view shows the newest line above the table until the
// next key.
package top
