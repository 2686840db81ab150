package bus

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Settings of the durable consumers that all processes of an external
// finalizer, of an agent, or of a program that answers notices, share.
const (
	// CallAckWait is the time after which a call that is neither acknowledged nor reported
	// as in progress is delivered again.
	CallAckWait = 30 * time.Second
	// CallMaxPending is the maximum number of calls that are delivered and not
	// acknowledged.
	CallMaxPending = 1024
	// CallInactive is the time without a pull request after which the consumer is deleted.
	// Its calls stay in the stream.
	CallInactive = 24 * time.Hour
)

// Keys of the metadata of consumers.
const (
	MetaProcess = "coppice-process" // the process that requested the consumer last, as it names itself
	MetaActor   = "coppice-actor"   // the actor that requested the consumer first
)

// FinalizerConsumer returns the configuration of the consumer of an external finalizer.
func FinalizerConsumer(realm, finalizer string) jetstream.ConsumerConfig {
	return callConsumer(FinalizerDurable(finalizer), FinalizeFilter(realm, finalizer), "external finalizer "+finalizer)
}

// AgentConsumer returns the configuration of the consumer of a kind's agent.
func AgentConsumer(realm, group, plural string) jetstream.ConsumerConfig {
	return callConsumer(AgentDurable(group, plural), TerminateFilter(realm, group, plural), fmt.Sprintf("agent of %s in group %q", plural, group))
}

// ExpiryConsumer returns the configuration of the consumer of the calls about notices to a program.
func ExpiryConsumer(realm, name string) jetstream.ConsumerConfig {
	return callConsumer(ExpiryDurable(name), ExpireFilter(realm, name), "notices of expiry policies to "+name)
}

func callConsumer(durable, filter, about string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:           durable,
		Description:       about,
		FilterSubject:     filter,
		AckPolicy:         jetstream.AckExplicitPolicy,
		AckWait:           CallAckWait,
		MaxDeliver:        -1,
		MaxAckPending:     CallMaxPending,
		InactiveThreshold: CallInactive,
	}
}

// WorkAckWait is the time after which a message of the work stream that is neither
// acknowledged nor reported as in progress is delivered again.
const WorkAckWait = 10 * time.Second
