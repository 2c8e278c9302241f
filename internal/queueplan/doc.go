// Package queueplan tells what a change of a queue's configuration would do, before it is made.
//
// A [Plan] has the settings that would change, with their values before and after, and the effects on the jobs of the
// queue now: jobs that would be dropped, pushes that would be refused, workers that would wait. Making a plan changes
// nothing. It takes at most three calls to the engine.
package queueplan
