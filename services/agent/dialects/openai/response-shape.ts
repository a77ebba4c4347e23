import type { Response, ResponseUsage } from 'openai/resources/responses/responses';
import type { Tokens } from '#contract';

/** Fields that a response repeats from its request. */
export interface ResponseShape {
  id: string;
  chat: string;
  model: string;
  /** Unix time in seconds. */
  createdAt: number;
  instructions: string | null;
  metadata: Record<string, string> | null;
  previous: string | null;
  isStored: boolean;
}

/** A response without output so far. */
export const openResponse = (shape: ResponseShape): Response & { store: boolean } => ({
  id: shape.id,
  object: 'response',
  created_at: shape.createdAt,
  status: 'in_progress',
  background: false,
  access_programs: null,
  error: null,
  incomplete_details: null,
  instructions: shape.instructions,
  metadata: shape.metadata,
  model: shape.model,
  output: [],
  output_text: '',
  parallel_tool_calls: false,
  previous_response_id: shape.previous,
  store: shape.isStored,
  temperature: null,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [{ type: 'code_interpreter', container: { type: 'auto' } }],
  top_p: null,
  truncation: 'auto',
});

export const toUsage = ({ input, output }: Tokens): ResponseUsage => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: input + output,
});
