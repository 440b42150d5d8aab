export { encodeOnnxModel, onnxInputName, onnxOutputName } from './encode.ts'
