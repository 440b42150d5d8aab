/**
 * How a run leaves its outputs where they are. The Node binding of ONNX Runtime copies every output it returns, even
 * one that was preallocated and is already filled. It converts outputs in the model's order and throws at the first
 * that is no tensor; so a model whose first output is an empty sequence fills all preallocated outputs and then throws
 * before it copies any. That is an accident of the version we pin, so a worker probes it when it starts (session.ts)
 * and otherwise lets the binding copy.
 */
export const nullOutputName = 'nothing'

/** What the binding throws when it meets the empty sequence. Anything else is a real error. */
export const nullOutputMessage = 'Non tensor type is temporarily not supported.'
