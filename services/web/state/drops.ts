/** Files that are dropped where nothing takes them are refused: a browser would leave the page to show them. */
export const refuseStrayFiles = (): void => {
  const refuse = (event: DragEvent) => {
    if (event.defaultPrevented || !event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = 'none';
  };
  addEventListener('dragover', refuse);
  addEventListener('drop', refuse);
};
