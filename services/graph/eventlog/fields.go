package eventlog

// Field numbers of coppice.v1.Commit and of the messages in it.
const (
	commitRealmID       = 1
	commitID            = 2
	commitPrevious      = 3
	commitEpoch         = 4
	commitTime          = 5
	commitFirstRevision = 6
	commitCommands      = 7
	commitEvents        = 8
	commitResources     = 9
	commitNamespaces    = 10

	commitSequence = 12
	commitKey      = 14
	commitNewKey   = 16

	newKeyNumber      = 1
	newKeyFingerprint = 2

	commandID         = 1
	commandActor      = 2
	commandVerb       = 3
	commandReply      = 4
	commandNote       = 5
	commandPrevious   = 6
	commandUnfinished = 7

	eventCommand          = 1
	eventReason           = 2
	eventCause            = 3
	eventCreated          = 4
	eventUpdated          = 5
	eventMarked           = 6
	eventOwnersRemoved    = 7
	eventFinalizerRemoved = 8
	eventDeleted          = 9
	eventSession          = 10

	objectNode = 1
	objectBody = 2

	markObject     = 1
	markTime       = 2
	markGrace      = 3
	markGeneration = 4
	markFinalizers = 5
	markAwaited    = 6

	columnObjects = 1 // in OwnerReferencesRemoved, FinalizerRemoved, ObjectsDeleted
	columnShared  = 2 // references, finalizer, finalizers
	idUIDs        = 1
	idResources   = 2
	idNamespaces  = 3
	idNames       = 4
	idCauses      = 5
	sessionID     = 1
	sessionClosed = 2
)
