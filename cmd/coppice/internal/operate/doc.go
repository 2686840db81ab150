// Package operate has the commands with which operators watch and steer the collector: [BrakeCommand], [ParkedCommand],
// [PolicyCommand], which has veto and agree, and [FinalizerCommand], and [VerifyCommand], which compares the state with the log.
package operate
