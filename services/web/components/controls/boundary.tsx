import { Component, type ReactNode } from 'react';

export interface BoundaryProps {
  children: ReactNode;
  /** Shown instead of children that cannot be drawn. */
  fallback: ReactNode;
  /** What the children show: another one is tried again. */
  value?: unknown;
}

interface BoundaryState {
  hasFailed: boolean;
  value?: unknown;
}

/** Keeps an error in drawing its children from emptying the whole page. React has only classes for this. */
export class Boundary extends Component<BoundaryProps, BoundaryState> {
  static getDerivedStateFromError = () => ({ hasFailed: true });

  static getDerivedStateFromProps = ({ value }: BoundaryProps, state: BoundaryState) =>
    value === state.value ? null : { hasFailed: false, value };

  override state: BoundaryState = { hasFailed: false };

  override render() {
    return this.state.hasFailed ? this.props.fallback : this.props.children;
  }
}
