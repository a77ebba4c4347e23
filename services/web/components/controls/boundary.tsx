import { Component, type ReactNode } from 'react';

export interface BoundaryProps {
  children: ReactNode;
  /** Shown instead of children that cannot be drawn. */
  fallback: ReactNode;
}

/** Keeps an error in drawing its children from emptying the whole page. React has only classes for this. */
export class Boundary extends Component<BoundaryProps> {
  static getDerivedStateFromError = () => ({ hasFailed: true });

  override state = { hasFailed: false };

  override render() {
    return this.state.hasFailed ? this.props.fallback : this.props.children;
  }
}
